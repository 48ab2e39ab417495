// Rotate each pair of features, i and i + D / 2, by its token's angle: (offset + token) * base ** (-i / (D / 2)).
//
// x, out: N x L x H x D elements of type T. offset: the first token's position, one int32. base: one float32. Compute
// in float32. Grid: one thread per pair; the last threads may have no pair.
// --- your code: rope
const uint length = x_shape[1], heads = x_shape[2], pairs = x_shape[3] / 2;
const uint number = thread_position_in_grid.x, vector = number / pairs, pair = number % pairs;
if (number < x_shape[0] * length * heads * pairs) {
  const uint position = offset[0] + vector / heads % length;
  const float angle = position * metal::exp2(-metal::log2(base[0]) * pair / pairs);
  const float c = metal::cos(angle), s = metal::sin(angle);
  const uint at = vector * 2 * pairs + pair;
  const float first = float(x[at]), second = float(x[at + pairs]);
  out[at] = T(first * c - second * s);
  out[at + pairs] = T(first * s + second * c);
}
// --- end

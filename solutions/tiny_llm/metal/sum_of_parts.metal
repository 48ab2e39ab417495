// --- given
// y = the sum over all parts. partial: parts x N x O, float32. y: N x O elements of type T, one per thread.
const uint size = partial_shape[1] * partial_shape[2], i = thread_position_in_grid.x;
if (i < size) {
  float sum = 0;
  for (uint part = 0; part < partial_shape[0]; ++part) {
    sum += partial[part * size + i];
  }
  y[i] = T(sum);
}

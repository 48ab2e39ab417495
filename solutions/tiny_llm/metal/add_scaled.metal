// out = x + scale * y, element by element.
//
// x, y, out: N elements of type T each, contiguous. scale: one float32.
// Compute in float32. The grid's threads together cover all N elements, about four per thread.
// --- your code: add_scaled
const uint size = x_shape[0];
for (uint i = thread_position_in_grid.x; i < size; i += threads_per_grid.x) {
  out[i] = T(float(x[i]) + scale[0] * float(y[i]));
}
// --- end

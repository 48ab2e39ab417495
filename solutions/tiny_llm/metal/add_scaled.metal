// out = x + scale * y, number by number.
//
// x, y, out: N numbers of type T each, one after another. scale: one number, float32.
// The sum is taken in float32. Together the grid's threads go through all N numbers, and a thread has about four.
// --- your code: add_scaled
const uint size = x_shape[0];
for (uint i = thread_position_in_grid.x; i < size; i += threads_per_grid.x) {
  out[i] = T(float(x[i]) + scale[0] * float(y[i]));
}
// --- end

// out = silu(gate) * up, with silu(gate) = gate / (1 + exp(-gate)).
//
// x: rows x 2 I elements of type T; the first I of each row are the gate, the others are up. out: rows x I.
// Compute in float32. Grid: x counts the I columns, and its last threads may have no column; y counts the rows.
// --- your code: swiglu
const uint size = x_shape[1] / 2, column = thread_position_in_grid.x, row = thread_position_in_grid.y;
if (column < size) {
  const float gate = float(x[row * 2 * size + column]);
  const float up = float(x[row * 2 * size + size + column]);
  out[row * size + column] = T(gate / (1 + metal::exp(-gate)) * up);
}
// --- end

// out = silu(gate) * up, with silu(gate) = gate / (1 + exp(-gate)).
//
// x: rows x 2 I numbers of type T; of each row the first I are the gate and the others are up. out: rows x I.
// It is computed in float32. The grid has a column of threads for each number of a row, and at its end some for none;
// y counts the rows.
// --- your code: swiglu
const uint size = x_shape[1] / 2, column = thread_position_in_grid.x, row = thread_position_in_grid.y;
if (column < size) {
  const float gate = float(x[row * 2 * size + column]);
  const float up = float(x[row * 2 * size + size + column]);
  out[row * size + column] = T(gate / (1 + metal::exp(-gate)) * up);
}
// --- end

// y = x W^T for a 4-bit W, with 8 x 8 SIMD-group matrices: one threadgroup of 4 SIMD-groups computes a 32 x 32 tile of
// y, and each SIMD-group a quarter of it, 16 x 16.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: N x I elements of type T, y: N x O elements of type T. Accumulate in float32. I and
// I / groups are multiples of 32.
// Grid: x counts the tiles of a row of y, 128 threads each, and y the rows of tiles; the last tiles may extend past y.
// --- your code: quantized_matrices
constexpr uint ACROSS = 36;  // from row to row: with 32, the 8 rows of a matrix would lie in the same banks
threadgroup float rows[32][ACROSS];     // of x: row, input; in the end of y: row, output
threadgroup float weights[32][ACROSS];  // of W: output, input
const uint length = x_shape[0], outputs = packed_shape[0], words = packed_shape[1], groups = scales_shape[1];
const uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup, top = simdgroup / 2 * 16, left = simdgroup % 2 * 16;
const uint first_row = threadgroup_position_in_grid.y * 32, first_output = threadgroup_position_in_grid.x * 32;
const uint mine = min(first_output + t / 4, outputs - 1);  // the row of W of which this thread unpacks a word

simdgroup_float8x8 sums[2][2];
for (uint down = 0; down < 2; ++down) {
  for (uint right = 0; right < 2; ++right) {
    sums[down][right] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
}
for (uint first = 0; first < words; first += 4) {
  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous tiles are in use
  for (uint r = simdgroup; r < 32; r += 4) {
    rows[r][lane] = float(x[min(first_row + r, length - 1) * 8 * words + 8 * first + lane]);
  }
  const uint word = first + t % 4, group = mine * groups + word * groups / words;
  const uint q = packed[mine * words + word];
  const float scale = float(scales[group]), bias = float(biases[group]);
  for (uint digit = 0; digit < 8; ++digit) {
    weights[t / 4][t % 4 * 8 + digit] = scale * float(q >> (4 * digit) & 15) + bias;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint i = 0; i < 32; i += 8) {
    simdgroup_float8x8 of_x[2], of_weights[2];
    for (uint h = 0; h < 2; ++h) {
      simdgroup_load(of_x[h], &rows[top + 8 * h][i], ACROSS);
      simdgroup_load(of_weights[h], &weights[left + 8 * h][i], ACROSS, ulong2(0), true);
    }
    for (uint down = 0; down < 2; ++down) {
      for (uint right = 0; right < 2; ++right) {
        simdgroup_multiply_accumulate(sums[down][right], of_x[down], of_weights[right], sums[down][right]);
      }
    }
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint down = 0; down < 2; ++down) {
  for (uint right = 0; right < 2; ++right) {
    simdgroup_store(sums[down][right], &rows[top + 8 * down][left + 8 * right], ACROSS);
  }
}
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint r = simdgroup; r < 32; r += 4) {
  const uint row = first_row + r, output = first_output + lane;
  if (row < length && output < outputs) {
    y[row * outputs + output] = T(rows[r][lane]);
  }
}
// --- end

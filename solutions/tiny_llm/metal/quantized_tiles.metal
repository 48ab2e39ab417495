// y = x W^T for a 4-bit W: one threadgroup of 4 SIMD-groups computes a tile of y, 32 rows by 32 columns.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: N x I elements of type T, y: N x O elements of type T. Accumulate in float32. I and
// I / groups are multiples of 32.
// Grid: x counts the tiles of a row of y, 128 threads each, and y the rows of tiles; the last tiles may extend past y.
// --- your code: quantized_tiles
threadgroup float rows[32][32];     // of x: row, input
threadgroup float weights[32][33];  // of W: output, input. With 33 in the place of 32 a column lies in 32 banks
const uint length = x_shape[0], outputs = packed_shape[0], words = packed_shape[1], groups = scales_shape[1];
const uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint first_row = threadgroup_position_in_grid.y * 32, first_output = threadgroup_position_in_grid.x * 32;
const uint mine = min(first_output + t / 4, outputs - 1);  // the row of W of which this thread unpacks a word

float sums[8] = {};  // of output `lane`, and of the rows `simdgroup`, `simdgroup` + 4, and so on
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

  for (uint i = 0; i < 32; ++i) {
    const float weight = weights[lane][i];
    for (uint r = 0; r < 8; ++r) {
      sums[r] += rows[simdgroup + 4 * r][i] * weight;
    }
  }
}
for (uint r = 0; r < 8; ++r) {
  const uint row = first_row + simdgroup + 4 * r, output = first_output + lane;
  if (row < length && output < outputs) {
    y[row * outputs + output] = T(sums[r]);
  }
}
// --- end

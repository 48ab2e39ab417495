// Split-K: partial sums of y = x W^T for a 4-bit W and an x of 1 to 8 rows. The inputs are cut into parts, each with
// its own sum, which occupies more threadgroups than the rows of W alone.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: N x I elements of type T, N at most 8. partial: parts x N x O, float32. I and
// I / groups are multiples of 32. Each part gets the same number of blocks of 256 inputs, ceil(blocks / parts); the
// last parts may get fewer, or none, and then their sums are 0.
// Grid: x has 256 threads for every 8 rows of W, one SIMD-group each, the last of which may have no row; y counts the
// parts.
// --- your code: split_products
threadgroup float numbers[8][8][36];  // 256 of each row of x: row, digit, word. With 36 no two share a bank
const uint length = x_shape[0], outputs = packed_shape[0], words = packed_shape[1], groups = scales_shape[1];
const uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.x * 8 + simdgroup_index_in_threadgroup;
const uint part = threadgroup_position_in_grid.y, parts = threadgroups_per_grid.y;
const uint blocks = (words + 31) / 32, each = 32 * ((blocks + parts - 1) / parts);  // words of a part
const uint end = min((part + 1) * each, words);

float totals[8] = {};  // of each row of x
for (uint first = part * each; first < end; first += 32) {
  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous numbers are in use
  if (first + t / 8 < words) {
    for (uint n = 0; n < length; ++n) {
      numbers[n][t % 8][t / 8] = float(x[n * 8 * words + 8 * first + t]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  const uint word = first + lane;
  if (row < outputs && word < words) {
    const uint q = packed[row * words + word], group = row * groups + word * groups / words;
    const float scale = float(scales[group]), bias = float(biases[group]);
    for (uint digit = 0; digit < 8; ++digit) {
      const float weight = scale * float(q >> (4 * digit) & 15) + bias;  // unpacked once for all rows of x
      for (uint n = 0; n < length; ++n) {
        totals[n] += numbers[n][digit][lane] * weight;
      }
    }
  }
}
for (uint n = 0; n < length; ++n) {
  const float total = simd_sum(totals[n]);
  if (lane == 0 && row < outputs) {
    partial[(part * length + n) * outputs + row] = total;
  }
}
// --- end

// y = W x for a 4-bit W: one SIMD-group per row of W, 8 SIMD-groups per threadgroup.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: I elements of type T, y: O elements of type T. Accumulate in float32. I and I /
// groups are multiples of 32.
// Grid: 256 threads for every 8 rows; the last SIMD-groups may have no row.
// --- your code: quantized_matvec
threadgroup float numbers[8][36];  // 256 of x: digit, word. With 36 in the place of 32 no two of a SIMD-group share a bank
const uint outputs = packed_shape[0], words = packed_shape[1], groups = scales_shape[1];
const uint t = thread_index_in_threadgroup, lane = thread_index_in_simdgroup;
const uint row = threadgroup_position_in_grid.x * 8 + simdgroup_index_in_threadgroup;

float total = 0;
for (uint first = 0; first < words; first += 32) {
  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous numbers are in use
  if (first + t / 8 < words) {
    numbers[t % 8][t / 8] = float(x[8 * first + t]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  const uint word = first + lane;
  if (row < outputs && word < words) {
    const uint q = packed[row * words + word], group = row * groups + word * groups / words;
    float dot = 0, sum = 0;  // a word lies in one group: the scale and the bias can wait
    for (uint digit = 0; digit < 8; ++digit) {
      dot += float(q >> (4 * digit) & 15) * numbers[digit][lane];
      sum += numbers[digit][lane];
    }
    total += float(scales[group]) * dot + float(biases[group]) * sum;
  }
}
total = simd_sum(total);
if (lane == 0 && row < outputs) {
  y[row] = T(total);
}
// --- end

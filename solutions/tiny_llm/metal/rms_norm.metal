// out = x / sqrt(mean(x^2) + eps) * weight, row by row.
//
// x, out: rows x E elements of type T, passed flat. weight: E elements of type T. eps: one float32. Compute the mean in
// float32. One threadgroup of 1 to 8 whole SIMD-groups per row; at most 9 barriers and no bank conflicts.
// --- your code: rms_norm
threadgroup float sums[8];  // of the squares, one for each SIMD-group
const uint size = weight_shape[0], row = threadgroup_position_in_grid.x * size;
const uint first = thread_position_in_threadgroup.x, threads = threads_per_threadgroup.x;

float sum = 0;
for (uint i = first; i < size; i += threads) {
  const float number = float(x[row + i]);
  sum += number * number;
}
sum = simd_sum(sum);
if (thread_index_in_simdgroup == 0) {
  sums[simdgroup_index_in_threadgroup] = sum;
}
threadgroup_barrier(mem_flags::mem_threadgroup);

float total = 0;
for (uint g = 0; g < simdgroups_per_threadgroup; ++g) {
  total += sums[g];
}
const float scale = metal::rsqrt(total / size + eps[0]);
for (uint i = first; i < size; i += threads) {
  out[row + i] = weight[i] * T(float(x[row + i]) * scale);
}
// --- end

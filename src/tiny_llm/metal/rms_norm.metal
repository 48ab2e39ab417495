// out = x / sqrt(mean(x^2) + eps) * weight, row by row.
//
// x, out: rows x E elements of type T, passed flat. weight: E elements of type T. eps: one float32. Compute the mean in
// float32. One threadgroup of 1 to 8 whole SIMD-groups per row; at most 9 barriers and no bank conflicts.
// --- your code: rms_norm
#error "2.5.2 RMSNorm with a threadgroup"
// --- end

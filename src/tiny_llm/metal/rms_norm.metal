// out = x / sqrt(mean of the squares of x + eps) * weight, row by row.
//
// x, out: rows x E numbers of type T. weight: E numbers of type T. eps: one number, float32. The mean is taken in float32.
// Each row has a threadgroup of 1 to 8 whole SIMD-groups, which waits at 9 barriers at most, and has no bank conflicts.
// --- your code: rms_norm
#error "2.5.2 RMSNorm by a threadgroup"
// --- end

// y = x W^T for a 4-bit W, with 8 x 8 SIMD-group matrices: one threadgroup of 4 SIMD-groups computes a 32 x 32 tile of
// y, and each SIMD-group a quarter of it, 16 x 16.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: N x I elements of type T, y: N x O elements of type T. Accumulate in float32. I and
// I / groups are multiples of 32.
// Grid: x counts the tiles of a row of y, 128 threads each, and y the rows of tiles; the last tiles may extend past y.
// --- your code: quantized_matrices
#error "2.6.3 SIMD-group matrices"
// --- end

// y = x W^T for a 4-bit W: one threadgroup of 4 SIMD-groups computes a tile of y, 32 rows by 32 columns.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: N x I elements of type T, y: N x O elements of type T. Accumulate in float32. I and
// I / groups are multiples of 32.
// Grid: x counts the tiles of a row of y, 128 threads each, and y the rows of tiles; the last tiles may extend past y.
// --- your code: quantized_tiles
#error "2.6.2 Tiled quantized matmul"
// --- end

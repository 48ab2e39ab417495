// y = x W^T, of a W in 4 bits, by matrices of 8 x 8: each tile of y has a threadgroup of 4 SIMD-groups, and each of these
// a quarter of the tile, 16 x 16.
//
// packed: O x I / 8 words, each with 8 weights, the first one in its lowest 4 bits. scales, biases: O x groups numbers of
// type S: a weight is scale * q + bias. x: N x I numbers of type T, y: N x O numbers of type T. The sum is taken in
// float32. In the grid x counts the tiles of a row of y, 128 threads each, and y the rows of tiles, 32 x 32; the last
// tiles stick out. I and I / groups are multiples of 32.
// --- your code: quantized_matrices
#error "2.6.3 Matrices of a SIMD-group"
// --- end

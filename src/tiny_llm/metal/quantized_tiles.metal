// y = x W^T, of a W in 4 bits: each tile of y, 32 rows by 32 columns, has a threadgroup of 4 SIMD-groups.
//
// packed: O x I / 8 words, each with 8 weights, the first one in its lowest 4 bits. scales, biases: O x groups numbers of
// type S: a weight is scale * q + bias. x: N x I numbers of type T, y: N x O numbers of type T. The sum is taken in
// float32. In the grid x counts the tiles of a row of y, 128 threads each, and y the rows of tiles; the last tiles stick
// out. I and I / groups are multiples of 32.
// --- your code: quantized_tiles
#error "2.6.2 Quantized products by tiles"
// --- end

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
#error "2.6.4 Split-K"
// --- end

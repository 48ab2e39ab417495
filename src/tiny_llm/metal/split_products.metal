// Parts of y = x W^T, of a W in 4 bits and an x of 1 to 8 rows: the inputs are cut into parts, and of each part all
// products have a sum of their own. Then there is work for more threadgroups than W has rows for.
//
// packed: O x I / 8 words, each with 8 weights, the first one in its lowest 4 bits. scales, biases: O x groups numbers of
// type S: a weight is scale * q + bias. x: N x I numbers of type T, N at most 8. partial: parts x N x O numbers, float32.
// Blocks of 256 inputs are handed out, to each part as many as the next, until there are no more: the last parts may
// have fewer, or none, and then their sums are 0. In the grid x has 256 threads for every 8 rows of W, one SIMD-group
// each and at its end some for none, and y counts the parts. I and I / groups are multiples of 32.
// --- your code: split_products
#error "2.6.4 Split-K"
// --- end

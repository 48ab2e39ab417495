// y = W x, of a W in 4 bits: each row of W has a SIMD-group, and 8 of them make a threadgroup.
//
// packed: O x I / 8 words, each with 8 weights, the first one in its lowest 4 bits. scales, biases: O x groups numbers of
// type S: a weight is scale * q + bias. x: I numbers of type T, y: O numbers of type T. The sum is taken in float32.
// The grid has 256 threads for every 8 rows, and at its end some SIMD-groups for none. I and I / groups are multiples
// of 32.
// --- your code: quantized_matvec
#error "2.6.1 Quantized matvec"
// --- end

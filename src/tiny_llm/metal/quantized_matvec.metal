// y = W x for a 4-bit W: one SIMD-group per row of W, 8 SIMD-groups per threadgroup.
//
// packed: O x I / 8 words of 8 weights, the first in the lowest 4 bits. scales, biases: O x groups elements of type S;
// a weight is scale * q + bias. x: I elements of type T, y: O elements of type T. Accumulate in float32. I and I /
// groups are multiples of 32.
// Grid: 256 threads for every 8 rows; the last SIMD-groups may have no row.
// --- your code: quantized_matvec
#error "2.6.1 Quantized matvec"
// --- end

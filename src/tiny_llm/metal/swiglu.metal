// out = silu(gate) * up, with silu(gate) = gate / (1 + exp(-gate)).
//
// x: rows x 2 I elements of type T; the first I of each row are the gate, the others are up. out: rows x I.
// Compute in float32. Grid: x counts the I columns, and its last threads may have no column; y counts the rows.
// --- your code: swiglu
#error "2.5.4 SwiGLU in one pass"
// --- end

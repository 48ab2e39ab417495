// out = silu(gate) * up, with silu(gate) = gate / (1 + exp(-gate)).
//
// x: rows x 2 I numbers of type T; of each row the first I are the gate and the others are up. out: rows x I.
// It is computed in float32. The grid has a column of threads for each number of a row, and at its end some for none;
// y counts the rows.
// --- your code: swiglu
#error "2.5.4 SwiGLU in one pass"
// --- end

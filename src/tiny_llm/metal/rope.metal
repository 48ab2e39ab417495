// Rotate each pair of features, i and i + D / 2, by its token's angle: (offset + token) * base ** (-i / (D / 2)).
//
// x, out: N x L x H x D elements of type T. offset: the first token's position, one int32. base: one float32. Compute
// in float32. Grid: one thread per pair; the last threads may have no pair.
// --- your code: rope
#error "2.5.3 RoPE without tables"
// --- end

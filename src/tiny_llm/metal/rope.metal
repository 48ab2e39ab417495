// Each pair of features, i and i + D / 2, turned by its token's angle: (offset + token) * base ** (-i / (D / 2)).
//
// x, out: N x L x H x D numbers of type T. offset: the first token's position, one int32. base: one number, float32.
// The turning is float32. The grid has a thread for each pair, and at its end some for none.
// --- your code: rope
#error "2.5.3 RoPE without tables"
// --- end

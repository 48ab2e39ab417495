// out = softmax(scale * query . key) . value, tile by tile: a threadgroup stores only 16 x 32 scores at a time.
//
// query, out: heads x L x D elements of type T. key, value: kv_heads x S x D elements of type T; heads is a multiple of
// kv_heads, and heads / kv_heads consecutive heads share keys and values. D is at most 128. scale: one float32. causal:
// one int32, 1 if query i sees only the keys 0 to i + S - L, with L at most S, and 0 if it sees all. Compute in
// float32.
// Grid: x counts the blocks of 16 queries, 128 threads each, and y the heads; the last block may extend past L.
// --- your code: flash_attention
#error "2.7.4 Flash attention in Metal"
// --- end

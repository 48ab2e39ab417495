// out = softmax(scale * query . key) . value, block by block: of all the scores, one table of 16 x 32 is there at a time.
//
// query, out: heads x L x D numbers of type T. key, value: kv_heads x S x D numbers of type T; heads is a multiple of
// kv_heads, and those that follow each other share keys. D is at most 128. scale: one number, float32. causal: one
// number, 1 if query i sees only the keys 0 to i + S - L, with L at most S, and 0 if it sees all. It is computed in
// float32. In the grid x counts the blocks of 16 queries, 128 threads each, and y the heads; the last block sticks out.
// --- your code: flash_attention
#error "2.7.4 Flash attention in Metal"
// --- end

// out = softmax(scale * query . key) . value over the tokens of one request, whose keys and values lie in pages.
//
// query, out: L x heads x D numbers of type T; query i is of token tokens - L + i, and sees the tokens up to itself.
// keys, values: pages x kv_heads x page x D numbers of type T; heads is a multiple of kv_heads, and those that follow
// each other share keys. D is at most 128. table: token s is in page table[s / page], at s % page. tokens: one number,
// at least L. scale: one number, float32. It is computed in float32, and what is not the request's is not looked at. In
// the grid x counts the blocks of 16 queries, 128 threads each, and y the heads; the last block sticks out.
// --- your code: paged_attention
#error "3.4.4 Paged attention in Metal"
// --- end

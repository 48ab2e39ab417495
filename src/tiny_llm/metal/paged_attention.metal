// out = softmax(scale * query . key) . value over the tokens of one request, whose keys and values are in pages.
//
// query, out: L x heads x D elements of type T; query i is that of token tokens - L + i, and sees the tokens up to it.
// keys, values: pages x kv_heads x page x D elements of type T; heads is a multiple of kv_heads, and heads / kv_heads
// consecutive heads share keys and values. D is at most 128. table: int32; token s is in page table[s / page], at
// s % page. tokens: one int32, at least L. scale: one float32. Compute in float32, and read no slot of another request.
// Grid: x counts the blocks of 16 queries, 128 threads each, and y the heads; the last block may extend past L.
// --- your code: paged_attention
#error "3.4.4 Paged attention in Metal"
// --- end

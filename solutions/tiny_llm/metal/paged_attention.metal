// out = softmax(scale * query . key) . value over the tokens of one request, whose keys and values are in pages.
//
// query, out: L x heads x D elements of type T; query i is that of token tokens - L + i, and sees the tokens up to it.
// keys, values: pages x kv_heads x page x D elements of type T; heads is a multiple of kv_heads, and heads / kv_heads
// consecutive heads share keys and values. D is at most 128. table: int32; token s is in page table[s / page], at
// s % page. tokens: one int32, at least L. scale: one float32. Compute in float32, and read no slot of another request.
// Grid: x counts the blocks of 16 queries, 128 threads each, and y the heads; the last block may extend past L.
// --- your code: paged_attention
threadgroup float queries[16][128];  // of the block, times scale
threadgroup float tile[32][129];     // 32 keys, then their values. 129 wide, so that a column lies in 32 different banks
threadgroup float weights[16][32];   // query, key
const uint length = query_shape[0], heads = query_shape[1], dims = query_shape[2];
const uint kv_heads = keys_shape[1], page = keys_shape[2];
const uint lane = thread_index_in_simdgroup, simdgroup = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * 16, head = threadgroup_position_in_grid.y;
const uint shared = head / (heads / kv_heads);  // the key-value head that this head reads
const uint before = tokens[0] - length, end = min(before + first + 16, uint(tokens[0]));

float largest[4], total[4], seen[4][4];  // of the queries `simdgroup`, `simdgroup` + 4, ...; features `lane`, `lane` + 32, ...
for (uint r = 0; r < 4; ++r) {
  const uint row = simdgroup + 4 * r, from = (min(first + row, length - 1) * heads + head) * dims;
  for (uint d = lane; d < dims; d += 32) {
    queries[row][d] = scale[0] * float(query[from + d]);
  }
  largest[r] = -INFINITY;
  total[r] = 0;
  for (uint part = 0; part < 4; ++part) {
    seen[r][part] = 0;
  }
}
for (uint from = 0; from < end; from += 32) {
  const uint count = min(end - from, 32u);
  uint place = 0;  // of token `from` + `lane`, in keys and in values
  if (lane < count) {
    const uint s = from + lane;
    place = ((uint(table[s / page]) * kv_heads + shared) * page + s % page) * dims;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous values are in use
  for (uint k = simdgroup; k < count; k += 4) {
    const uint key = simd_broadcast(place, k);
    for (uint d = lane; d < dims; d += 32) {
      tile[k][d] = float(keys[key + d]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  float scores[4] = {};  // of key `lane`
  if (lane < count) {
    for (uint d = 0; d < dims; ++d) {
      const float number = tile[lane][d];
      for (uint r = 0; r < 4; ++r) {
        scores[r] += queries[simdgroup + 4 * r][d] * number;
      }
    }
  }
  for (uint r = 0; r < 4; ++r) {
    const uint row = simdgroup + 4 * r, visible = min(before + first + row + 1, end);
    const float score = from + lane < visible ? scores[r] : -INFINITY;
    const float higher = metal::max(largest[r], simd_max(score));
    const float kept = metal::exp(largest[r] - higher);  // of what was relative to the largest score before
    const float weight = metal::exp(score - higher);
    total[r] = total[r] * kept + simd_sum(weight);
    for (uint part = 0; part < 4; ++part) {
      seen[r][part] *= kept;
    }
    largest[r] = higher;
    weights[row][lane] = weight;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the keys are in use
  for (uint k = simdgroup; k < count; k += 4) {
    const uint value = simd_broadcast(place, k);
    for (uint d = lane; d < dims; d += 32) {
      tile[k][d] = float(values[value + d]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint k = 0; k < count; ++k) {
    for (uint part = 0; part < 4 && lane + 32 * part < dims; ++part) {
      const float number = tile[k][lane + 32 * part];
      for (uint r = 0; r < 4; ++r) {
        seen[r][part] += weights[simdgroup + 4 * r][k] * number;
      }
    }
  }
}
for (uint r = 0; r < 4; ++r) {
  const uint row = first + simdgroup + 4 * r;
  for (uint part = 0; part < 4 && lane + 32 * part < dims && row < length; ++part) {
    out[(row * heads + head) * dims + lane + 32 * part] = T(seen[r][part] / total[r]);
  }
}
// --- end

// out = softmax(scale * query . key) . value, tile by tile: a threadgroup stores only 16 x 32 scores at a time.
//
// query, out: heads x L x D elements of type T. key, value: kv_heads x S x D elements of type T; heads is a multiple of
// kv_heads, and heads / kv_heads consecutive heads share keys and values. D is at most 128. scale: one float32. causal:
// one int32, 1 if query i sees only the keys 0 to i + S - L, with L at most S, and 0 if it sees all. Compute in
// float32.
// Grid: x counts the blocks of 16 queries, 128 threads each, and y the heads; the last block may extend past L.
// --- your code: flash_attention
threadgroup float queries[16][128];  // of the block, times scale
threadgroup float tile[32][129];     // 32 keys, then their values. 129 wide, so that a column lies in 32 different banks
threadgroup float weights[16][32];   // query, key
const uint length = query_shape[1], dims = query_shape[2], tokens = key_shape[1];
const uint lane = thread_index_in_simdgroup, simdgroup = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * 16, head = threadgroup_position_in_grid.y;
const uint shared = head / (query_shape[0] / key_shape[0]) * tokens;  // the first row of the keys that this head reads
const uint before = tokens - length, end = causal[0] ? min(before + first + 16, tokens) : tokens;

float largest[4], total[4], seen[4][4];  // of the queries `simdgroup`, `simdgroup` + 4, ...; features `lane`, `lane` + 32, ...
for (uint r = 0; r < 4; ++r) {
  const uint row = simdgroup + 4 * r, from = head * length + min(first + row, length - 1);
  for (uint d = lane; d < dims; d += 32) {
    queries[row][d] = scale[0] * float(query[from * dims + d]);
  }
  largest[r] = -INFINITY;
  total[r] = 0;
  for (uint part = 0; part < 4; ++part) {
    seen[r][part] = 0;
  }
}
for (uint from = 0; from < end; from += 32) {
  const uint keys = min(end - from, 32u);
  threadgroup_barrier(mem_flags::mem_threadgroup);  // until then, the previous values are in use
  for (uint k = simdgroup; k < keys; k += 4) {
    for (uint d = lane; d < dims; d += 32) {
      tile[k][d] = float(key[(shared + from + k) * dims + d]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  float scores[4] = {};  // of key `lane`
  if (lane < keys) {
    for (uint d = 0; d < dims; ++d) {
      const float number = tile[lane][d];
      for (uint r = 0; r < 4; ++r) {
        scores[r] += queries[simdgroup + 4 * r][d] * number;
      }
    }
  }
  for (uint r = 0; r < 4; ++r) {
    const uint row = simdgroup + 4 * r, visible = causal[0] ? min(before + first + row + 1, tokens) : tokens;
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
  for (uint k = simdgroup; k < keys; k += 4) {
    for (uint d = lane; d < dims; d += 32) {
      tile[k][d] = float(value[(shared + from + k) * dims + d]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);

  for (uint k = 0; k < keys; ++k) {
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
    out[(head * length + row) * dims + lane + 32 * part] = T(seen[r][part] / total[r]);
  }
}
// --- end

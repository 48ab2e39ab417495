// Attention of one token to all before it, straight from the pages: none of them is copied.
//
// As in attend.cpp, the heads that share keys and values are computed together, so that none is read twice.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "one_token.h"
#include "softmax.h"

/// The scores of n keys, which lie one behind the other, for each of the heads. Those of a head are `apart` from those
/// of the next. `soon` is read after this: memory is asked for as much of it.
static void compare_page(const float* queries, int heads, const float* keys, int n, int dims, float scale,
                         const float* soon, float* scores, int64_t apart) {
  int k = 0;
  for (; k + 2 <= n; k += 2) {
    ask_for(soon + k * dims, 2 * dims);
    for (int h = 0; h < heads; ++h)
      compare<2>(queries + h * dims, keys + k * dims, dims, scale, scores + h * apart + k);
  }
  for (; k < n; ++k)
    for (int h = 0; h < heads; ++h)
      compare<1>(queries + h * dims, keys + k * dims, dims, scale, scores + h * apart + k);
}

/// Adds n values, which lie one behind the other, to what each of the heads has seen so far, each with its weight.
static void gather_page(const float* weights, int64_t apart, int heads, const float* values, int n, int dims,
                        const float* soon, float* seen) {
  int k = 0;
  for (; k + 4 <= n; k += 4) {
    ask_for(soon + k * dims, 4 * dims);
    for (int h = 0; h < heads; ++h) gather<4>(weights + h * apart + k, values + k * dims, dims, seen + h * dims);
  }
  for (; k < n; ++k)
    for (int h = 0; h < heads; ++h) gather<1>(weights + h * apart + k, values + k * dims, dims, seen + h * dims);
}

/// softmax(queries . keys * scale) . values, for the heads that read one key-value head, and one token.
///
/// queries and attended: group x dims. keys and values: pages x kv_heads x page x dims, of all requests. table: where
/// this request's pages are, in order; its token s is in page table[s / page] at s % page. What stands behind its
/// `tokens` tokens is not looked at.
extern "C" void paged_attend(const float* queries, const float* keys, const float* values, const int* table,
                             float* attended, int group, int kv_heads, int kv_head, int dims, int page, int tokens,
                             float scale) {
  // --- your code: paged_attend
  const int pages = (tokens + page - 1) / page;
  auto place = [&](int i) { return (int64_t(table[std::min(i, pages - 1)]) * kv_heads + kv_head) * page * dims; };
  std::vector<float> scores(int64_t(group) * tokens);
  for (int i = 0; i < pages; ++i)
    compare_page(queries, group, keys + place(i), std::min(page, tokens - i * page), dims, scale, keys + place(i + 1),
                 &scores[i * page], tokens);
  for (int h = 0; h < group; ++h) softmax(&scores[h * int64_t(tokens)], tokens);
  std::fill(attended, attended + group * dims, 0.0f);
  for (int i = 0; i < pages; ++i)
    gather_page(&scores[i * page], tokens, group, values + place(i), std::min(page, tokens - i * page), dims,
                values + place(i + 1), attended);
  // --- end
}

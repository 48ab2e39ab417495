// Paged attention of one token: keys and values are read directly from the pages, without copying.
//
// As in attend.cpp, the heads that share keys and values are computed together, so that none is read twice.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "one_token.h"
#include "softmax.h"

constexpr int STEP = 4;   // keys, or values, per iteration
constexpr int AHEAD = 8;  // the prefetch distance in rows

/// Prefetches STEP rows, AHEAD rows after row k of a page; past the page's end, those of the next page.
static inline void prefetch_next(const float* page, const float* next, int k, int n, int dims) {
  prefetch(k + AHEAD < n ? page + (k + AHEAD) * dims : next + (k + AHEAD - n) * dims, STEP * dims);
}

/// The scores of the n keys in a page, for each head; heads' scores are `apart` floats from each other. next: the keys
/// of the next page, for prefetching.
static void compare_page(const float* queries, int heads, const float* keys, const float* next, int n, int dims,
                         float scale, float* scores, int64_t apart) {
  int k = 0;
  for (; k + STEP <= n; k += STEP) {
    prefetch_next(keys, next, k, n, dims);
    for (int h = 0; h < heads; ++h)
      compare<STEP>(queries + h * dims, keys + k * dims, dims, scale, scores + h * apart + k);
  }
  for (; k < n; ++k)
    for (int h = 0; h < heads; ++h)
      compare<1>(queries + h * dims, keys + k * dims, dims, scale, scores + h * apart + k);
}

/// Adds the n weighted values in a page to each head's sum, seen. next: the values of the next page, for prefetching.
static void gather_page(const float* weights, int64_t apart, int heads, const float* values, const float* next, int n,
                        int dims, float* seen) {
  int k = 0;
  for (; k + STEP <= n; k += STEP) {
    prefetch_next(values, next, k, n, dims);
    for (int h = 0; h < heads; ++h) gather<STEP>(weights + h * apart + k, values + k * dims, dims, seen + h * dims);
  }
  for (; k < n; ++k)
    for (int h = 0; h < heads; ++h) gather<1>(weights + h * apart + k, values + k * dims, dims, seen + h * dims);
}

/// Computes attended = softmax(queries . keys * scale) . values for one token and the heads that share key-value head
/// kv_head.
///
/// queries, attended: group x dims. keys, values: pages x kv_heads x page x dims, of all requests; page is the page
/// size. table: the request's block table; its token s is in page table[s / page], at s % page. Nothing past its first
/// `tokens` tokens is read. All but table is float32.
extern "C" void paged_attend(const float* queries, const float* keys, const float* values, const int* table,
                             float* attended, int group, int kv_heads, int kv_head, int dims, int page, int tokens,
                             float scale) {
  // --- your code: paged_attend
  throw std::runtime_error("3.4.2 One token, over pages, in C++");
  // --- end
}

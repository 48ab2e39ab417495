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

constexpr int STEP = 4;   // keys, or values, that are taken together
constexpr int AHEAD = 8;  // so many rows before one is read, memory is asked for it

/// Asks for the rows of a page that are read AHEAD rows after row k; where that is behind its end, for those of the next.
static inline void ask_behind(const float* page, const float* next, int k, int n, int dims) {
  ask_for(k + AHEAD < n ? page + (k + AHEAD) * dims : next + (k + AHEAD - n) * dims, STEP * dims);
}

/// The scores of the n keys that lie in a page, for each of the heads, whose scores are `apart` from each other. The
/// keys at `next` are those that are read after these.
static void compare_page(const float* queries, int heads, const float* keys, const float* next, int n, int dims,
                         float scale, float* scores, int64_t apart) {
  int k = 0;
  for (; k + STEP <= n; k += STEP) {
    ask_behind(keys, next, k, n, dims);
    for (int h = 0; h < heads; ++h)
      compare<STEP>(queries + h * dims, keys + k * dims, dims, scale, scores + h * apart + k);
  }
  for (; k < n; ++k)
    for (int h = 0; h < heads; ++h)
      compare<1>(queries + h * dims, keys + k * dims, dims, scale, scores + h * apart + k);
}

/// Adds the n values that lie in a page to what each of the heads has seen so far, each with its weight.
static void gather_page(const float* weights, int64_t apart, int heads, const float* values, const float* next, int n,
                        int dims, float* seen) {
  int k = 0;
  for (; k + STEP <= n; k += STEP) {
    ask_behind(values, next, k, n, dims);
    for (int h = 0; h < heads; ++h) gather<STEP>(weights + h * apart + k, values + k * dims, dims, seen + h * dims);
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
  throw std::runtime_error("3.4.2 One token, over pages, in C++");
  // --- end
}

// Flash attention: attention of many tokens, tile by tile, so that a thread stores only a small tile of scores.
//
// A block of queries iterates over the blocks of keys. Its state is, for each query, the running maximum of the scores
// and, relative to it, the sum of the weights and the sum of the weighted values.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "softmax.h"

constexpr int QUERIES = 24;  // tokens per block, each with all heads that share the keys
constexpr int KEYS = 96;     // per block: small enough that keys and values stay in L1 or L2 for all queries

/// Scores of ROWS queries and N keys: ROWS * N independent sums, so that each loaded number is used several times.
template <int ROWS, int N>
static inline void compare(const float* queries, const float* keys, int dims, float* scores) {
  Floats products[ROWS][N] = {};
  int d = 0;
  for (; d + LANES <= dims; d += LANES) {
    Floats part[ROWS];
    for (int r = 0; r < ROWS; ++r) part[r] = load(queries + r * dims + d);
    for (int n = 0; n < N; ++n) {
      const Floats key = load(keys + n * dims + d);
      for (int r = 0; r < ROWS; ++r) products[r][n] += part[r] * key;
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    float* row = scores + r * KEYS;
    if constexpr (N == 4) {
      const Four four = sums(products[r][0], products[r][1], products[r][2], products[r][3]);
      std::memcpy(row, &four, sizeof four);
    } else {
      for (int n = 0; n < N; ++n) row[n] = sum(products[r][n]);
    }
    for (int n = 0; n < N; ++n)
      for (int rest = d; rest < dims; ++rest) row[n] += queries[r * dims + rest] * keys[n * dims + rest];
  }
}

/// The scores of a block, rows x KEYS, of which the first n per row are written. Keys are read once and in order.
static void compare_block(const float* queries, int rows, const float* keys, int n, int dims, float* scores) {
  int k = 0;
  for (; k + 4 <= n; k += 4) {
    prefetch_ahead(keys + k * dims, 4 * dims);
    int r = 0;
    for (; r + 3 <= rows; r += 3) compare<3, 4>(queries + r * dims, keys + k * dims, dims, scores + r * KEYS + k);
    for (; r < rows; ++r) compare<1, 4>(queries + r * dims, keys + k * dims, dims, scores + r * KEYS + k);
  }
  for (; k < n; ++k)
    for (int r = 0; r < rows; ++r) compare<1, 1>(queries + r * dims, keys + k * dims, dims, scores + r * KEYS + k);
}

/// Adds n weighted values to ROWS rows, for as many columns as COLUMNS registers hold.
template <int ROWS, int COLUMNS>
static inline void gather(const float* weights, const float* values, int n, int dims, float* seen) {
  Floats sums[ROWS][COLUMNS];
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < COLUMNS; ++c) sums[r][c] = load(seen + r * dims + c * LANES);
  for (int k = 0; k < n; ++k) {
    Floats value[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) value[c] = load(values + k * dims + c * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats weight = all(weights[r * KEYS + k]);
      for (int c = 0; c < COLUMNS; ++c) sums[r][c] += weight * value[c];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < COLUMNS; ++c) store(seen + r * dims + c * LANES, sums[r][c]);
}

/// Adds the n weighted values of a block to each row's sum, seen, rows x dims.
static void gather_block(const float* weights, int rows, const float* values, int n, int dims, float* seen) {
  int d = 0;
  // A single token has few rows: the free registers hold more columns, so values are read in longer pieces.
  for (; rows < 6 && d + 8 * LANES <= dims; d += 8 * LANES)
    for (int r = 0; r < rows; ++r) gather<1, 8>(weights + r * KEYS, values + d, n, dims, seen + r * dims + d);
  for (; d + 2 * LANES <= dims; d += 2 * LANES) {
    int r = 0;
    for (; r + 6 <= rows; r += 6) gather<6, 2>(weights + r * KEYS, values + d, n, dims, seen + r * dims + d);
    for (; r < rows; ++r) gather<1, 2>(weights + r * KEYS, values + d, n, dims, seen + r * dims + d);
  }
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < n; ++k)
      for (int rest = d; rest < dims; ++rest) seen[r * dims + rest] += weights[r * KEYS + k] * values[k * dims + rest];
}

/// Computes attended = softmax(queries . keys * scale) . values for the last `length` of `tokens` tokens, causally:
/// each sees the tokens up to itself, and a block of queries reads no key after its last query.
///
/// queries, attended: length x heads x dims. keys, values: kv_heads arrays, each tokens x dims; query head h uses array
/// h / (heads / kv_heads), in integers: consecutive heads share one. All float32. The pool's loop is divided into work
/// items, each of which is a block of queries and one key-value head.
void flash_attention(const float* queries, const float* const* keys, const float* const* values, float* attended,
                     int heads, int kv_heads, int dims, int length, int tokens, float scale) {
  // --- your code: flash_attention
  const int group = heads / kv_heads, blocks = (length + QUERIES - 1) / QUERIES;
  pool().run(kv_heads * blocks, 1, [&](int begin, int end) {
    const int most = QUERIES * group;
    std::vector<float> mine(most * dims), scores(most * KEYS), seen(most * dims), largest(most), total(most);
    for (int i = begin; i < end; ++i) {
      const int head = i % kv_heads, first = i / kv_heads * QUERIES, last = std::min(length, first + QUERIES);
      const int rows = (last - first) * group;
      auto place = [&](int row) { return ((first + row / group) * int64_t(heads) + head * group + row % group) * dims; };
      for (int r = 0; r < rows; ++r)
        for (int d = 0; d < dims; ++d) mine[r * dims + d] = scale * queries[place(r) + d];
      std::fill(seen.begin(), seen.end(), 0.0f);
      std::fill(total.begin(), total.end(), 0.0f);
      std::fill(largest.begin(), largest.end(), -std::numeric_limits<float>::infinity());

      const int before = tokens - length;  // query t sees the keys 0 .. before + t
      for (int from = 0; from < before + last; from += KEYS) {
        const int n = std::min(KEYS, before + last - from);
        compare_block(mine.data(), rows, keys[head] + int64_t(from) * dims, n, dims, scores.data());
        for (int r = 0; r < rows; ++r) {
          float* row = &scores[r * KEYS];
          const int visible = std::max(0, std::min(n, before + first + r / group + 1 - from));
          std::fill(row + visible, row + n, 0.0f);
          if (visible == 0) continue;
          const float higher = std::max(largest[r], highest_of(row, visible));
          const float kept = std::exp(largest[r] - higher);  // of what was relative to the largest score before
          total[r] = total[r] * kept + weigh(row, visible, higher);
          for (int d = 0; d < dims; ++d) seen[r * dims + d] *= kept;
          largest[r] = higher;
        }
        gather_block(scores.data(), rows, values[head] + int64_t(from) * dims, n, dims, seen.data());
      }
      for (int r = 0; r < rows; ++r)
        for (int d = 0; d < dims; ++d) attended[place(r) + d] = seen[r * dims + d] / total[r];
    }
  });
  // --- end
}

/// As `flash_attention`, with keys and values in one array each, kv_heads x tokens x dims. The checks call this one.
extern "C" void flash(const float* queries, const float* keys, const float* values, float* attended, int heads,
                      int kv_heads, int dims, int length, int tokens, float scale) {
  std::vector<const float*> each_keys, each_values;
  for (int64_t h = 0; h < kv_heads; ++h) {
    each_keys.push_back(keys + h * tokens * dims);
    each_values.push_back(values + h * tokens * dims);
  }
  flash_attention(queries, each_keys.data(), each_values.data(), attended, heads, kv_heads, dims, length, tokens,
                  scale);
}

// Attention of one token to all before it, straight from the cache: every key and value is read once and in order.
//
// Heads that share keys and values (grouped-query attention) are computed together, so that none is read twice.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"

/// The products of a query with N keys, one after another in memory: N sums grow side by side, and none waits.
template <int N>
inline void compare(const float* query, const float* keys, int dims, float scale, float* scores) {
  Floats sums[N] = {};
  int d = 0;
  for (; d + LANES <= dims; d += LANES)
    for (int n = 0; n < N; ++n) sums[n] += load(query + d) * load(keys + n * dims + d);
  for (int n = 0; n < N; ++n) scores[n] = scale * (sum(sums[n]) + dot(query + d, keys + n * dims + d, dims - d));
}

/// Adds N values, each with its weight, to what a head has seen so far, which is read and written once for all N.
template <int N>
inline void gather(const float* weights, const float* values, int dims, float* seen) {
  int d = 0;
  for (; d + LANES <= dims; d += LANES) {
    Floats sum = load(seen + d);
    for (int n = 0; n < N; ++n) sum += weights[n] * load(values + n * dims + d);
    store(seen + d, sum);
  }
  for (; d < dims; ++d)
    for (int n = 0; n < N; ++n) seen[d] += weights[n] * values[n * dims + d];
}

/// The softmax of n numbers, in their place.
static void softmax(float* scores, int n) {
  const float largest = *std::max_element(scores, scores + n);
  Floats totals{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats e = exp(load(scores + i) - largest);
    store(scores + i, e);
    totals += e;
  }
  float total = sum(totals);
  for (; i < n; ++i) total += scores[i] = std::exp(scores[i] - largest);
  for (i = 0; i < n; ++i) scores[i] /= total;
}

/// softmax(queries . keys * scale) . values, for the heads of one group.
///
/// queries and attended: heads x dims. keys and values: length x dims, which all these heads read.
extern "C" void attend(const float* queries, const float* keys, const float* values, float* attended, int heads,
                       int dims, int length, float scale) {
  // --- your code: attend
  throw std::runtime_error("2.4.6 Attention of one token");
  // --- end
}

// --- given
// The inner loops of attention for one token, over a few keys or values at a time.
#pragma once
#include "lanes.h"

/// Scores of a query and N keys that are consecutive in memory: N independent sums, which hide the latency of
/// additions.
template <int N>
inline void compare(const float* query, const float* keys, int dims, float scale, float* scores) {
  Floats products[N] = {};
  int d = 0;
  for (; d + LANES <= dims; d += LANES)
    for (int n = 0; n < N; ++n) products[n] += load(query + d) * load(keys + n * dims + d);
  float each[N];
  if constexpr (N == 4) {
    const Four four = sums(products[0], products[1], products[2], products[3]);
    std::memcpy(each, &four, sizeof four);
  } else {
    for (int n = 0; n < N; ++n) each[n] = sum(products[n]);
  }
  for (int n = 0; n < N; ++n) scores[n] = scale * (each[n] + dot(query + d, keys + n * dims + d, dims - d));
}

/// Adds N weighted values to a head's sum, seen, which is loaded and stored once for all N.
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

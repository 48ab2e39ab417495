// --- given
// The softmax of contiguous numbers.
#pragma once
#include <algorithm>
#include <cmath>

#include "lanes.h"

/// Replaces n scores by exp(score - highest), and returns their sum.
inline float weigh(float* scores, int n, float highest) {
  Floats totals{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats e = exp(load(scores + i) - highest);
    store(scores + i, e);
    totals += e;
  }
  if (i < n) {  // unused lanes hold -infinity, which becomes 0
    Floats last = all(-INFINITY);
    std::memcpy(&last, scores + i, sizeof(float) * (n - i));
    last = exp(last - highest);
    totals += last;
    std::memcpy(scores + i, &last, sizeof(float) * (n - i));
  }
  return sum(totals);
}

/// The largest of n numbers, n at least 1.
inline float highest_of(const float* numbers, int n) {
  Floats most = all(-INFINITY);
  int i = 0;
  for (; i + LANES <= n; i += LANES) most = most > load(numbers + i) ? most : load(numbers + i);
  float highest = largest(most);
  for (; i < n; ++i) highest = std::max(highest, numbers[i]);
  return highest;
}

/// Softmax of n numbers, in place.
inline void softmax(float* scores, int n) {
  const float total = weigh(scores, n, highest_of(scores, n));
  for (int i = 0; i < n; ++i) scores[i] /= total;
}

// --- given
// The softmax of numbers that lie one behind the other.
#pragma once
#include <algorithm>
#include <cmath>

#include "lanes.h"

/// Puts exp(score - highest) in the place of n scores, and returns their sum.
inline float weigh(float* scores, int n, float highest) {
  Floats totals{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats e = exp(load(scores + i) - highest);
    store(scores + i, e);
    totals += e;
  }
  if (i < n) {  // in the lanes that are left, what becomes 0
    Floats last = all(-INFINITY);
    std::memcpy(&last, scores + i, sizeof(float) * (n - i));
    last = exp(last - highest);
    totals += last;
    std::memcpy(scores + i, &last, sizeof(float) * (n - i));
  }
  return sum(totals);
}

/// The largest of n numbers, at least one.
inline float highest_of(const float* numbers, int n) {
  Floats most = all(-INFINITY);
  int i = 0;
  for (; i + LANES <= n; i += LANES) most = most > load(numbers + i) ? most : load(numbers + i);
  float highest = largest(most);
  for (; i < n; ++i) highest = std::max(highest, numbers[i]);
  return highest;
}

/// The softmax of n numbers, in their place.
inline void softmax(float* scores, int n) {
  const float total = weigh(scores, n, highest_of(scores, n));
  for (int i = 0; i < n; ++i) scores[i] /= total;
}

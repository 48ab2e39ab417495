// --- given
// The softmax of numbers that lie one behind the other.
#pragma once
#include <algorithm>
#include <cmath>

#include "lanes.h"

/// Puts exp(score - largest) in the place of n scores, and returns their sum.
inline float weigh(float* scores, int n, float largest) {
  Floats totals{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats e = exp(load(scores + i) - largest);
    store(scores + i, e);
    totals += e;
  }
  float total = sum(totals);
  for (; i < n; ++i) total += scores[i] = std::exp(scores[i] - largest);
  return total;
}

/// The softmax of n numbers, in their place.
inline void softmax(float* scores, int n) {
  const float total = weigh(scores, n, *std::max_element(scores, scores + n));
  for (int i = 0; i < n; ++i) scores[i] /= total;
}

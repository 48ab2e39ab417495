// Attention of one token to all before it, straight from the cache: every key and value is read once and in order.
//
// Heads that share keys and values (grouped-query attention) are computed together, so that none is read twice.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"

/// The softmax of n numbers, in their place.
static void softmax(float* scores, int n) {
  const float largest = *std::max_element(scores, scores + n);
  float total = 0;
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    const Floats e = exp(load(scores + i) - largest);
    store(scores + i, e);
    total += sum(e);
  }
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

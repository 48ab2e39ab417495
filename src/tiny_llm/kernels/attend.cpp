// Attention of one token to all tokens so far, directly on the cache: every key and value is read once and in order.
//
// Heads that share keys and values (grouped-query attention) are computed together, so that none is read twice.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "one_token.h"
#include "softmax.h"

/// Computes attended = softmax(queries . keys * scale) . values, for the heads of one group.
///
/// queries, attended: heads x dims. keys, values: length x dims, shared by all these heads. All float32.
extern "C" void attend(const float* queries, const float* keys, const float* values, float* attended, int heads,
                       int dims, int length, float scale) {
  // --- your code: attend
  throw std::runtime_error("2.4.6 Attention for one token");
  // --- end
}

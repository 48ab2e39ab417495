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
  std::vector<float> scores(int64_t(heads) * length);
  int64_t s = 0;
  for (; s + 2 <= length; s += 2) {
    prefetch_ahead(keys + s * dims, 2 * dims);
    for (int h = 0; h < heads; ++h)
      compare<2>(queries + h * dims, keys + s * dims, dims, scale, &scores[h * int64_t(length) + s]);
  }
  for (; s < length; ++s)
    for (int h = 0; h < heads; ++h)
      compare<1>(queries + h * dims, keys + s * dims, dims, scale, &scores[h * int64_t(length) + s]);
  for (int h = 0; h < heads; ++h) softmax(&scores[h * int64_t(length)], length);
  std::fill(attended, attended + heads * dims, 0.0f);
  for (s = 0; s + 2 <= length; s += 2) {
    prefetch_ahead(values + s * dims, 2 * dims);
    for (int h = 0; h < heads; ++h)
      gather<2>(&scores[h * int64_t(length) + s], values + s * dims, dims, attended + h * dims);
  }
  for (; s < length; ++s)
    for (int h = 0; h < heads; ++h)
      gather<1>(&scores[h * int64_t(length) + s], values + s * dims, dims, attended + h * dims);
  // --- end
}

// --- given
// A memory-bandwidth benchmark: the limit of an engine that reads all its weights for each token.
#include <atomic>
#include <cstdint>

#include "lanes.h"
#include "pool.h"

/// Sums n numbers on all cores, in several independent sums, so that only memory bandwidth limits it.
extern "C" float read_all(const float* numbers, int64_t n) {
  constexpr int SUMS = 8, STEP = SUMS * LANES;
  constexpr int64_t CHUNK = int64_t(1) << 18;  // 1 MiB
  std::atomic<float> total{0};
  pool().run(int((n + CHUNK - 1) / CHUNK), 1, [&](int first, int last) {
    const int64_t end = std::min(n, last * CHUNK);
    Floats sums[SUMS] = {};
    int64_t i = first * CHUNK;
    for (; i + STEP <= end; i += STEP)
      for (int k = 0; k < SUMS; ++k) sums[k] += load(numbers + i + k * LANES);
    float rest = 0;
    for (; i < end; ++i) rest += numbers[i];
    for (int k = 0; k < SUMS; ++k) rest += sum(sums[k]);
    total = total + rest;
  });
  return total;
}

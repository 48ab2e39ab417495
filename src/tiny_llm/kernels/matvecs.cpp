// --- given
// A quantized matrix times 1 to 8 vectors. `matmul.cpp` unpacks a panel of W to memory, which pays off only for many
// vectors; here a weight is multiplied by all vectors while it is in a register.
#include <cstdint>
#include <vector>

#include "panels.h"

/// The vectors in float32.
template <int TOKENS>
struct Vectors {
  static constexpr int COUNT = TOKENS;
  typedef Floats Dot;
  std::vector<float> values;  // input x token
  std::vector<float> sums;    // group x token

  Vectors(const float* x, int inputs, int group_size)
      : values(int64_t(inputs) * TOKENS), sums(inputs / group_size * TOKENS) {
    each_group(inputs / group_size, group_size * TOKENS, [&](int g) {
      for (int t = 0; t < TOKENS; ++t) {
        const float* group = x + int64_t(t) * inputs + g * group_size;
        Floats total{};
        for (int i = 0; i < group_size; i += LANES) total += load(group + i);
        sums[g * TOKENS + t] = sum(total);
        for (int i = 0; i < group_size; ++i) values[int64_t(g * group_size + i) * TOKENS + t] = group[i];
      }
    });
  }

  void add_word(Words word, int w, Floats* dots) const {
    const float* value = &values[int64_t(w) * PER_WORD * TOKENS];
#pragma GCC unroll 8
    for (int digit = 0; digit < PER_WORD; ++digit) {
      const Floats weights = to_floats(word >> (4 * digit) & 15);
      for (int t = 0; t < TOKENS; ++t) dots[t] += weights * value[digit * TOKENS + t];
    }
  }

  Floats scaled(Floats dot, Floats scale, int) const { return dot * scale; }
};

/// Computes y = x W^T. x: tokens x inputs, y: tokens x outputs, float32, for 1 to 8 tokens; W as in `quantized.h`.
extern "C" void matvecs(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                        int tokens, int outputs, int inputs, int group_size, int scale_type) {
  multiply_by_panels<Vectors>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
}

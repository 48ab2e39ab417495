// --- given
// A quantized matrix times vectors that are rounded to 8 bits: the batched version of `matvec_int8.cpp`, for decode steps
// and prefill. Each vector is rounded separately, so its result does not depend on the others.
#include <cstdint>
#include <vector>

#include "dot_int8.h"
#include "panels.h"
#include "rounded.h"

/// The vectors in 8 bits.
template <int TOKENS>
struct SmallVectors {
  static constexpr int COUNT = TOKENS;
  typedef Ints Dot;
  std::vector<Eight> values;        // word x token
  std::vector<float> scales, sums;  // group x token

  SmallVectors(const float* x, int inputs, int group_size)
      : values(inputs / PER_WORD * TOKENS), scales(inputs / group_size * TOKENS), sums(scales.size()) {
    each_group(inputs / group_size, group_size * TOKENS, [&](int g) {
      for (int t = 0; t < TOKENS; ++t)
        round_group(x + int64_t(t) * inputs + g * group_size, group_size, scales[g * TOKENS + t],
                    sums[g * TOKENS + t], &values[g * group_size / PER_WORD * TOKENS + t], TOKENS);
    });
  }

  void add_word(Words word, int w, Ints* dots) const {
    for (int t = 0; t < TOKENS; ++t) {
      const Eight& value = values[w * TOKENS + t];
      dots[t] = add_dot(dots[t], word, value.even - Ints{}, value.odd - Ints{});
    }
  }

  Floats scaled(Ints dot, Floats scale, int at) const {
    return __builtin_convertvector(dot, Floats) * (scale * scales[at]);
  }
};

/// Computes y = x W^T. x: tokens x inputs, y: tokens x outputs, float32; W as in `quantized.h`.
extern "C" void matvecs_int8(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                             int tokens, int outputs, int inputs, int group_size, int scale_type) {
  multiply_by_panels<SmallVectors>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
}

// --- given
// Activations rounded to 8 bits, with a scale for each group, as W has.
#pragma once
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "quantized.h"

/// The 8 integers for the weights of one word: those for its even weights, one per byte, and those for its odd ones.
struct Eight {
  int32_t even, odd;
};

/// Splits 8 bytes, 01234567, into the even and the odd ones.
inline Eight sorted(const int8_t* bytes) {
  uint64_t eight;
  std::memcpy(&eight, bytes, sizeof eight);
  uint64_t changed = (eight ^ eight >> 8) & 0x0000ff000000ff00;  // swap 1 with 2, and 5 with 6: 02134657
  eight ^= changed ^ changed << 8;
  changed = (eight ^ eight >> 16) & 0x00000000ffff0000;  // then 13 with 46: 02461357
  eight ^= changed ^ changed << 16;
  return {int32_t(eight), int32_t(eight >> 32)};
}

/// Rounds a group of x to 8 bits: x = scale * integer, with an error of at most scale / 2. Every `stride`th element of
/// eights is filled. total is the sum of the unrounded x, so that the biases' contribution stays exact.
inline void round_group(const float* x, int group_size, float& scale, float& total, Eight* eights, int stride) {
  typedef int8_t Bytes __attribute__((vector_size(LANES)));
  Floats most{}, totals{};
  for (int i = 0; i < group_size; i += LANES) {
    const Floats number = load(x + i), size = number < 0 ? -number : number;
    most = most > size ? most : size;
    totals += number;
  }
  const float end = largest(most), inverse = end > 0 ? 127 / end : 0;
  scale = end / 127;
  total = sum(totals);
  int8_t bytes[128];
  for (int i = 0; i < group_size; i += LANES) {
    const Ints numbers = __builtin_convertvector(nearest(load(x + i) * inverse), Ints);
    const Bytes small = __builtin_convertvector(numbers, Bytes);
    std::memcpy(bytes + i, &small, sizeof small);
  }
  for (int w = 0; w < group_size / PER_WORD; ++w) eights[w * stride] = sorted(bytes + w * PER_WORD);
}

/// x in 8 bits, in the order in which `dot_of_words` takes it.
struct Rounded {
  std::vector<int8_t> values;  // block x (even weights, odd weights), with zeros after the last input
  std::vector<float> scales;   // per group: x = scale * value, with an error of at most scale / 2
  std::vector<float> sums;     // of the unrounded x, per group

  Rounded(const float* x, int inputs, int group_size)
      : values((inputs + BLOCK - 1) / BLOCK * BLOCK), scales(inputs / group_size), sums(inputs / group_size) {
    Eight eights[128 / PER_WORD];
    for (int g = 0; g < inputs / group_size; ++g) {
      round_group(x + g * group_size, group_size, scales[g], sums[g], eights, 1);
      for (int w = 0; w < group_size / PER_WORD; ++w) {
        const int word = g * group_size / PER_WORD + w;
        int8_t* even = &values[word / LANES * BLOCK + word % LANES * sizeof(int32_t)];
        std::memcpy(even, &eights[w].even, sizeof(int32_t));
        std::memcpy(even + BLOCK / 2, &eights[w].odd, sizeof(int32_t));
      }
    }
  }
};

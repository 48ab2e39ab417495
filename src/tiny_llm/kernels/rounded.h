// --- given
// What is multiplied with the weights, rounded to 8 bits: a scale for each group, as W has.
#pragma once
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "quantized.h"

/// What meets the weights of one word: the numbers for its four even weights, one in a byte, and for its odd ones.
struct Eight {
  int32_t even, odd;
};

/// Sorts 8 bytes, 01234567, into the even and the odd ones.
inline Eight sorted(const int8_t* bytes) {
  uint64_t eight;
  std::memcpy(&eight, bytes, sizeof eight);
  uint64_t changed = (eight ^ eight >> 8) & 0x0000ff000000ff00;  // 1 and 2 change places, and 5 and 6: 02134657
  eight ^= changed ^ changed << 8;
  changed = (eight ^ eight >> 16) & 0x00000000ffff0000;  // then 13 and 46: 02461357
  eight ^= changed ^ changed << 16;
  return {int32_t(eight), int32_t(eight >> 32)};
}

/// Rounds a group of x to 8 bits: x = scale * number, to half a scale. Every `stride`th of eights is filled; total is
/// the sum of x as it was, so that the biases need not suffer.
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
  std::vector<float> scales;   // of each group: x = scale * value, to half a scale
  std::vector<float> sums;     // of each group of x as it was

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

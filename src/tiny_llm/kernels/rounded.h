// --- given
// What is multiplied with the weights, rounded to 8 bits: a scale for each group, as W has.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "quantized.h"

/// x in 8 bits, in the order in which `dot_of_words` takes it.
struct Rounded {
  std::vector<int8_t> values;  // block x (even weights, odd weights), with zeros after the last input
  std::vector<float> scales;   // of each group: x = scale * value, to half a scale
  std::vector<float> sums;     // of each group of x as it was: the biases need not suffer

  Rounded(const float* x, int inputs, int group_size)
      : values((inputs + BLOCK - 1) / BLOCK * BLOCK), scales(inputs / group_size), sums(inputs / group_size) {
    for (int g = 0; g < inputs / group_size; ++g, x += group_size) {
      Floats most{}, total{};
      for (int i = 0; i < group_size; i += LANES) {
        const Floats number = load(x + i), size = number < 0 ? -number : number;
        most = most > size ? most : size;
        total += number;
      }
      float largest = 0;
      for (int lane = 0; lane < LANES; ++lane) largest = std::max(largest, most[lane]);
      scales[g] = largest / 127;
      sums[g] = sum(total);
      const float inverse = largest > 0 ? 127 / largest : 0;
      for (int i = 0; i < group_size; i += 32) {  // all of them in one block
        const int block = (g * group_size + i) / BLOCK, place = (g * group_size + i) % BLOCK / 2;
        int8_t *even = &values[block * BLOCK + place], *odd = even + BLOCK / 2;
        for (int k = 0; k < 16; ++k) {
          even[k] = int8_t(nearest(x[i + 2 * k] * inverse));
          odd[k] = int8_t(nearest(x[i + 2 * k + 1] * inverse));
        }
      }
    }
  }
};

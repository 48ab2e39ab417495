// A quantized matrix times one vector, y = W x: the products of a decode step.
//
// Three versions, each built on the one before: scalar, SIMD, and SIMD on all cores. W is laid out as in `quantized.h`.
// x: inputs, y: outputs, both float32.
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "quantized.h"

/// Computes y = W x, one weight at a time. Scales and biases are stored row by row, as the weights are: all groups of
/// row 0, then all of row 1.
extern "C" void matvec_scalar(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                              int outputs, int inputs, int group_size, int scale_type) {
  // --- your code: matvec_scalar
  const int words = inputs / PER_WORD, groups = inputs / group_size;
  for (int64_t o = 0; o < outputs; ++o) {
    float total = 0;
    for (int g = 0; g < groups; ++g) {
      float dot = 0, sum = 0;  // the scale and the bias can wait until the group is through
      for (int i = g * group_size; i < (g + 1) * group_size; ++i) {
        const uint32_t q = packed[o * words + i / PER_WORD] >> (4 * (i % PER_WORD)) & 15;
        dot += float(q) * x[i];
        sum += x[i];
      }
      total += number_at(scales, o * groups + g, scale_type) * dot + number_at(biases, o * groups + g, scale_type) * sum;
    }
    y[o] = total;
  }
  // --- end
}

/// x, permuted once into the order in which every row of W needs it.
///
/// A register holds the words of one block, one word per lane, and a shift moves the same digit of all words to the
/// lowest bits: for each of the 8 digits, `values` holds the elements of x for these LANES weights side by side.
struct Arranged {
  std::vector<float> values;  // block x digit x lane, with zeros after the last input
  std::vector<float> sums;    // of x, for each group
  std::vector<float> ones;

  Arranged(const float* x, int inputs, int group_size)
      : values((inputs + BLOCK - 1) / BLOCK * BLOCK), sums(inputs / group_size), ones(sums.size(), 1.0f) {
    for (int g = 0; g < inputs / group_size; ++g) {
      float sum = 0;
      for (int i = g * group_size; i < (g + 1) * group_size; ++i) {
        const int block = i / BLOCK, lane = i % BLOCK / PER_WORD, digit = i % PER_WORD;
        values[block * BLOCK + digit * LANES + lane] = x[i];
        sum += x[i];
      }
      sums[g] = sum;
    }
  }
};

/// Computes rows first .. last - 1 of y, one register of words at a time. A row's last block may have fewer words.
static void rows(const Arranged& x, const uint32_t* packed, const void* scales, const void* biases, float* y, int first,
                 int last, int inputs, int group_size, int scale_type) {
  const int words = inputs / PER_WORD, groups = inputs / group_size;
  OwnLines scaled(groups + LANES);  // one row's scales, then zeros, as the last block may have fewer groups
  for (int64_t o = first; o < last; ++o) {
    const uint32_t* row = packed + o * words;
    const float added =
        prepare_scales(scales, biases, scale_type, o, groups, x.ones.data(), x.sums.data(), scaled.data());
    // --- your code: matvec_simd
    Floats total{};
    for (int block = 0; block * LANES < words; ++block) {
      __builtin_prefetch(row + block * LANES + 512);  // 2 KiB ahead: memory answers late, and rows follow each other
      const Words word = words_of_block(row + block * LANES, words - block * LANES);
      const float* values = x.values.data() + block * BLOCK;
      Floats dot{};
      for (int digit = 0; digit < PER_WORD; ++digit)
        dot += to_floats(word >> (4 * digit) & 15) * load(values + digit * LANES);
      total += dot * scales_of_block(scaled.data(), block, group_size);
    }
    y[o] = sum(total) + added;
    // --- end
  }
}

/// Computes y = W x, as many weights at a time as a register holds.
extern "C" void matvec_simd(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                            int outputs, int inputs, int group_size, int scale_type) {
  const Arranged arranged(x, inputs, group_size);
  const int half = outputs / 2;  // two calls, since `rows` must work for any range: task 2.4.3 needs that
  rows(arranged, packed, scales, biases, y, 0, half, inputs, group_size, scale_type);
  rows(arranged, packed, scales, biases, y, half, outputs, inputs, group_size, scale_type);
}

/// As `matvec_simd`, on all cores.
extern "C" void matvec_threads(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                               int outputs, int inputs, int group_size, int scale_type) {
  // --- your code: matvec_threads
  const Arranged arranged(x, inputs, group_size);  // once, before anyone reads it
  const int chunk = std::max(16, outputs / (4 * pool().threads()));  // four for each core
  pool().run(outputs, chunk, [&](int first, int last) {
    rows(arranged, packed, scales, biases, y, first, last, inputs, group_size, scale_type);
  });
  // --- end
}

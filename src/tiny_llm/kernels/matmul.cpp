// A quantized matrix times several vectors, Y = X W^T: what an engine does for the tokens of a prompt.
//
// A row of W that has been unpacked serves all tokens. So some rows become a panel of floats, small enough for the
// cache, and the panel meets a few tokens at a time, whose sums all stay in registers while it streams by.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "quantized.h"

constexpr int WIDTH = 2 * LANES;  // rows of W in a panel: two registers

// Tokens in a tile. Two sums for each, two registers of the panel and one of x: 15 of 16, or 27 of 32.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int TILE = 12;
#else
constexpr int TILE = 6;
#endif

/// Rows `first` to first + WIDTH - 1 of W as floats, inputs x WIDTH: for each input the rows lie side by side.
///
/// A lane is a row here: a register holds the same word of LANES rows, and each shift gives one input of all of them.
/// Rows past the end repeat the last one.
static void unpack(const uint32_t* packed, const void* scales, const void* biases, int first, int outputs, int inputs,
                   int group_size, int scale_type, float* panel) {
  const int words = inputs / PER_WORD, groups = inputs / group_size, words_of_group = group_size / PER_WORD;
  std::vector<float> wide(int64_t(2 * LANES) * groups);  // the scales of LANES rows, then the biases
  float *wide_scales = wide.data(), *wide_biases = wide_scales + int64_t(LANES) * groups;
  for (int left = 0; left < WIDTH; left += LANES) {
    int64_t row[LANES];
    for (int lane = 0; lane < LANES; ++lane) {
      row[lane] = std::min(first + left + lane, outputs - 1);
      widen(scales, row[lane] * groups, groups, scale_type, wide_scales + int64_t(lane) * groups);
      widen(biases, row[lane] * groups, groups, scale_type, wide_biases + int64_t(lane) * groups);
    }
    for (int g = 0; g < groups; ++g) {
      Floats scale{}, bias{};
      for (int lane = 0; lane < LANES; ++lane) {
        scale[lane] = wide_scales[int64_t(lane) * groups + g];
        bias[lane] = wide_biases[int64_t(lane) * groups + g];
      }
      for (int w = g * words_of_group; w < (g + 1) * words_of_group; ++w) {
        Words word{};
        for (int lane = 0; lane < LANES; ++lane) word[lane] = packed[row[lane] * words + w];
        for (int digit = 0; digit < PER_WORD; ++digit) {
          const Floats q = to_floats(word >> (4 * digit) & 15);
          store(panel + (w * PER_WORD + digit) * WIDTH + left, q * scale + bias);
        }
      }
    }
  }
}

/// TOKENS rows of x times the panel: the sums of a tile live in registers from the first input to the last.
template <int TOKENS>
inline void tile(const float* x, const float* panel, int inputs, float* y, int outputs, int columns) {
  Floats sums[TOKENS][2] = {};
  for (int i = 0; i < inputs; ++i) {
    const Floats left = load(panel + i * WIDTH), right = load(panel + i * WIDTH + LANES);
    for (int t = 0; t < TOKENS; ++t) {
      const Floats value = all(x[int64_t(t) * inputs + i]);
      sums[t][0] += value * left;
      sums[t][1] += value * right;
    }
  }
  for (int t = 0; t < TOKENS; ++t) std::memcpy(y + int64_t(t) * outputs, sums[t], sizeof(float) * columns);
}

/// The same for tokens that do not fill a tile, fewer than TILE: they make one that is as large as they are.
template <int TOKENS = TILE - 1>
inline void rest(const float* x, const float* panel, int inputs, float* y, int outputs, int columns, int tokens) {
  if constexpr (TOKENS > 0) {
    if (tokens == TOKENS) return tile<TOKENS>(x, panel, inputs, y, outputs, columns);
    rest<TOKENS - 1>(x, panel, inputs, y, outputs, columns, tokens);
  }
}

/// x: tokens x inputs, y: tokens x outputs, float32; W as `quantized.h` says. All cores share the rows of W.
extern "C" void matmul(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                       int tokens, int outputs, int inputs, int group_size, int scale_type) {
  // --- your code: matmul
  throw std::runtime_error("2.4.4 A matrix times a few vectors");
  // --- end
}

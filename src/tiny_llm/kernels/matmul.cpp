// A quantized matrix times several vectors, Y = X W^T: the products of a prefill.
//
// Unpacking a row of W pays off over all tokens. So some rows are unpacked into a panel of floats that fits the L1 or
// L2 cache, and the panel is multiplied by a tile of a few tokens at a time, whose sums stay in registers.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "lanes.h"
#include "panels.h"
#include "pool.h"
#include "quantized.h"

constexpr int WIDTH = 2 * LANES;  // rows of W per panel: two registers

// Tokens per tile. Two sums for each, two registers of the panel and one of x: 15 of 16 registers, or 27 of 32.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int TILE = 12;
#else
constexpr int TILE = 6;
#endif

/// Unpacks rows `first` to first + WIDTH - 1 of W to floats. panel: inputs x WIDTH, the rows side by side per input.
///
/// A lane is a row here: a register holds the same word of LANES rows, and each shift gives one input of all of them.
/// Columns for rows past the end of W are undefined.
static void unpack(const uint32_t* packed, const void* scales, const void* biases, int first, int outputs, int inputs,
                   int group_size, int scale_type, float* panel) {
  const int words = inputs / PER_WORD, groups = inputs / group_size, words_of_group = group_size / PER_WORD;
  std::vector<float> lines(int64_t(3 * LANES) * groups);
  float *wide_scales = lines.data(), *wide_biases = wide_scales + LANES * groups;
  float* scratch = wide_biases + LANES * groups;
  for (int left = 0; left < WIDTH && first + left < outputs; left += LANES) {
    const int64_t row = first + left;
    const int rows = std::min(LANES, outputs - first - left);
    of_panel(scales, row, rows, groups, scale_type, scratch, wide_scales);
    of_panel(biases, row, rows, groups, scale_type, scratch, wide_biases);
    Words square[LANES];
    for (int w = 0; w < words; ++w) {
      if (w % LANES == 0) columns_from(w, packed + row * words, rows, words, square);
      const Floats scale = load(wide_scales + w / words_of_group * LANES);
      const Floats bias = load(wide_biases + w / words_of_group * LANES);
      for (int digit = 0; digit < PER_WORD; ++digit) {
        const Floats q = to_floats(square[w % LANES] >> (4 * digit) & 15);
        store(panel + (int64_t(w) * PER_WORD + digit) * WIDTH + left, q * scale + bias);
      }
    }
  }
}

/// Multiplies TOKENS rows of x by the panel; the sums stay in registers from the first input to the last.
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

/// As `tile`, for fewer than TILE tokens: picks the tile of exactly that size.
template <int TOKENS = TILE - 1>
inline void rest(const float* x, const float* panel, int inputs, float* y, int outputs, int columns, int tokens) {
  if constexpr (TOKENS > 0) {
    if (tokens == TOKENS) return tile<TOKENS>(x, panel, inputs, y, outputs, columns);
    rest<TOKENS - 1>(x, panel, inputs, y, outputs, columns, tokens);
  }
}

/// Computes y = x W^T. x: tokens x inputs, y: tokens x outputs, float32; W as in `quantized.h`. The rows of W are split
/// over all cores.
extern "C" void matmul(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                       int tokens, int outputs, int inputs, int group_size, int scale_type) {
  // --- your code: matmul
  throw std::runtime_error("2.4.4 Quantized matmul");
  // --- end
}

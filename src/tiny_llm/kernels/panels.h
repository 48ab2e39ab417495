// --- given
// A quantized matrix times several vectors, Y = X W^T: the products of a decode step of a batch.
//
// A lane is a row of W here, so that nothing is added across lanes, and a word is multiplied by up to 8 vectors while it
// is in a register. For that, the words of LANES rows are transposed, once for all vectors. `Vectors` defines the
// product: in `matvecs.cpp` the vectors are floats, in `matvecs_int8.cpp` 8-bit integers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "quantized.h"

/// Transposes a square of LANES registers by swapping blocks of STEP x STEP lanes, for STEP 1, 2, 4 and so on.
template <uint32_t STEP = 1>
inline void transpose(Words* rows) {
  for (int r = 0; r < LANES; ++r)
    if (!(r & STEP)) exchange<STEP>(rows[r], rows[r + STEP], AllLanes{});
  if constexpr (2 * STEP < LANES) transpose<2 * STEP>(rows);
}

/// Loads columns `first` to first + LANES - 1 of LANES rows, one register per column; zeros past the last row or
/// column.
inline void columns_from(int first, const uint32_t* from, int rows, int columns, Words* registers) {
  if (rows == LANES && first + LANES <= columns) {
    for (int r = 0; r < LANES; ++r) {
      __builtin_prefetch(from + (LANES + r) * columns + first);  // of the next panel
      registers[r] = load<Words>(from + r * columns + first);
    }
  } else {
    for (int r = 0; r < LANES; ++r)
      registers[r] = r < rows ? words_of_block(from + r * columns + first, columns - first) : Words{};
  }
  transpose(registers);
}

/// Writes the scales, or biases, of `rows` rows of W from row `first` on to `to`: groups x LANES, undefined for other
/// rows. scratch holds as many floats.
inline void of_panel(const void* from, int64_t first, int rows, int groups, int scale_type, float* scratch, float* to) {
  widen(from, first * groups, rows * groups, scale_type, scratch);
  int g = 0;
  for (; g + LANES <= groups; g += LANES) {
    Words square[LANES];
    for (int r = 0; r < LANES; ++r) square[r] = (Words)load(scratch + r * groups + g);
    transpose(square);
    for (int i = 0; i < LANES; ++i) store(to + (g + i) * LANES, (Floats)square[i]);
  }
  for (; g < groups; ++g)
    for (int r = 0; r < LANES; ++r) to[g * LANES + r] = scratch[r * groups + g];
}

/// Multiplies a panel, at most LANES rows of W whose words are transposed, by all vectors.
template <class Vectors>
inline void panel(const Vectors& x, const Words* columns, const float* scales, const float* biases, int groups,
                  int words_of_group, float* y, int outputs, int rows) {
  constexpr int TOKENS = Vectors::COUNT;
  Floats totals[TOKENS] = {};
  for (int g = 0; g < groups; ++g) {
    typename Vectors::Dot dots[TOKENS] = {};
    for (int w = g * words_of_group; w < (g + 1) * words_of_group; ++w) x.add_word(columns[w], w, dots);
    const Floats scale = load(scales + g * LANES), bias = load(biases + g * LANES);
    for (int t = 0; t < TOKENS; ++t)
      totals[t] += x.scaled(dots[t], scale, g * TOKENS + t) + bias * x.sums[g * TOKENS + t];
  }
  for (int t = 0; t < TOKENS; ++t) std::memcpy(y + int64_t(t) * outputs, &totals[t], sizeof(float) * rows);
}

/// Multiplies W by `tokens` vectors: by tiles of 8, and REST others. Finds the instance for that rest, known at compile
/// time.
///
/// Vectors<COUNT> is constructed from x, inputs and group_size. It has the sum of each group of each vector, adds a
/// word's products to the dot products, and scales a group's dot product by the scales of W.
template <template <int> class Vectors, int REST = 7>
void multiply_by_panels(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                        int tokens, int outputs, int inputs, int group_size, int scale_type) {
  constexpr int TILE = 8;
  if constexpr (REST > 0) {
    if (tokens % TILE < REST)
      return multiply_by_panels<Vectors, REST - 1>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size,
                                                   scale_type);
  }
  std::vector<Vectors<TILE>> tiles;
  for (int64_t t = 0; t + TILE <= tokens; t += TILE) tiles.emplace_back(x + t * inputs, inputs, group_size);
  std::vector<Vectors<std::max(1, REST)>> rest;
  if (REST) rest.emplace_back(x + int64_t(tokens - REST) * inputs, inputs, group_size);

  const int words = inputs / PER_WORD, groups = inputs / group_size, panels = (outputs + LANES - 1) / LANES;
  pool().run(panels, std::clamp(panels / (4 * pool().threads()), 1, 8), [&](int begin, int end) {
    std::vector<Words> columns(words + LANES);
    OwnLines lines(3 * LANES * groups);
    float *scale = lines.data(), *bias = scale + LANES * groups, *scratch = bias + LANES * groups;
    for (int64_t o = begin * LANES; o < std::min(end * LANES, outputs); o += LANES) {
      const int rows = std::min(LANES, outputs - int(o));
      of_panel(scales, o, rows, groups, scale_type, scratch, scale);
      of_panel(biases, o, rows, groups, scale_type, scratch, bias);
      for (int w = 0; w < words; w += LANES) columns_from(w, packed + o * words, rows, words, &columns[w]);
      auto multiply = [&](const auto& vectors, int64_t t) {
        panel(vectors, columns.data(), scale, bias, groups, group_size / PER_WORD, y + t * outputs + o, outputs, rows);
      };
      for (size_t i = 0; i < tiles.size(); ++i) multiply(tiles[i], i * TILE);
      if (REST) multiply(rest[0], tokens - REST);
    }
  });
}

/// Calls body(g) for all groups; on one core if there are few.
template <class Body>
inline void each_group(int groups, int numbers, Body&& body) {
  pool().run(groups, std::max(1, 8192 / numbers), [&](int first, int last) {
    for (int g = first; g < last; ++g) body(g);
  });
}

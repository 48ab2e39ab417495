// --- given
// A quantized matrix times a few vectors, Y = X W^T: what an engine does when some requests write a token each.
//
// A lane is a row of W here, so that nothing has to be added across lanes, and a word meets all vectors while it is in a
// register. For that, the words of LANES rows are transposed, which is done once for all vectors. How a word meets them
// is left to `Vectors`: `matvecs.cpp` has them as floats, `matvecs_int8.cpp` in 8 bits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "quantized.h"

/// Transposes a square of LANES registers: whole blocks of STEP x STEP lanes change places, for STEP 1, 2, 4 and so on.
template <uint32_t STEP = 1>
inline void transpose(Words* rows) {
  for (int r = 0; r < LANES; ++r)
    if (!(r & STEP)) exchange<STEP>(rows[r], rows[r + STEP], AllLanes{});
  if constexpr (2 * STEP < LANES) transpose<2 * STEP>(rows);
}

/// Columns `first` to first + LANES - 1 of LANES rows, as registers. Of what is behind the last row or column, zeros.
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

/// The scales, or biases, of `rows` rows of W from row `first` on: groups x LANES, in the places of other rows anything.
/// room is for as many.
inline void of_panel(const void* from, int64_t first, int rows, int groups, int scale_type, float* room, float* to) {
  widen(from, first * groups, rows * groups, scale_type, room);
  int g = 0;
  for (; g + LANES <= groups; g += LANES) {
    Words square[LANES];
    for (int r = 0; r < LANES; ++r) square[r] = (Words)load(room + r * groups + g);
    transpose(square);
    for (int i = 0; i < LANES; ++i) store(to + (g + i) * LANES, (Floats)square[i]);
  }
  for (; g < groups; ++g)
    for (int r = 0; r < LANES; ++r) to[g * LANES + r] = room[r * groups + g];
}

/// A panel, LANES rows of W or fewer, times all vectors.
template <class Vectors>
inline void panel(const Vectors& x, const uint32_t* packed, const float* scales, const float* biases, int groups,
                  int words_of_group, float* y, int outputs, int rows) {
  constexpr int TOKENS = Vectors::COUNT;
  Words square[LANES];
  Floats totals[TOKENS] = {};
  for (int g = 0; g < groups; ++g) {
    typename Vectors::Dot dots[TOKENS] = {};
    for (int w = g * words_of_group; w < (g + 1) * words_of_group; ++w) {
      if (w % LANES == 0) columns_from(w, packed, rows, groups * words_of_group, square);
      x.add_word(square[w % LANES], w, dots);
    }
    const Floats scale = load(scales + g * LANES), bias = load(biases + g * LANES);
    for (int t = 0; t < TOKENS; ++t)
      totals[t] += x.scaled(dots[t], scale, g * TOKENS + t) + bias * x.sums[g * TOKENS + t];
  }
  for (int t = 0; t < TOKENS; ++t) std::memcpy(y + int64_t(t) * outputs, &totals[t], sizeof(float) * rows);
}

/// W times so many vectors, known when this is compiled; or one fewer, and so on.
///
/// Vectors<COUNT> is made of x, inputs and group_size. It knows the sum of each group of each vector, how to add a
/// word's products, and what a group's are worth, given the scales of W.
template <template <int> class Vectors, int COUNT = 8>
void multiply_by_panels(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                        int tokens, int outputs, int inputs, int group_size, int scale_type) {
  if constexpr (COUNT > 0) {
    if (tokens < COUNT)
      return multiply_by_panels<Vectors, COUNT - 1>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size,
                                                    scale_type);
    const Vectors<COUNT> vectors(x, inputs, group_size);
    const int words = inputs / PER_WORD, groups = inputs / group_size, panels = (outputs + LANES - 1) / LANES;
    pool().run(panels, std::clamp(panels / (4 * pool().threads()), 1, 8), [&](int begin, int end) {
      OwnLines lines(3 * LANES * groups);
      float *scale = lines.data(), *bias = scale + LANES * groups, *room = bias + LANES * groups;
      for (int64_t o = begin * LANES; o < std::min(end * LANES, outputs); o += LANES) {
        const int rows = std::min(LANES, outputs - int(o));
        of_panel(scales, o, rows, groups, scale_type, room, scale);
        of_panel(biases, o, rows, groups, scale_type, room, bias);
        panel(vectors, packed + o * words, scale, bias, groups, group_size / PER_WORD, y + o, outputs, rows);
      }
    });
  }
}

/// body(g) for all groups, on one core where they are few.
template <class Body>
inline void each_group(int groups, int numbers, Body&& body) {
  pool().run(groups, std::max(1, 8192 / numbers), [&](int first, int last) {
    for (int g = first; g < last; ++g) body(g);
  });
}

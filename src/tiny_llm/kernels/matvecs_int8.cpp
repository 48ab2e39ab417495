// --- given
// A quantized matrix times a few vectors whose numbers are rounded to 8 bits: what `matvecs.cpp` is to `matvec.cpp`,
// this is to `matvec_int8.cpp`. Each vector is rounded by itself, so it does not matter which others are there.
//
// A lane is a row of W here, so that nothing has to be added across the lanes, and a word meets all vectors while it is
// in a register. For that, the words of LANES rows are transposed, which is done once for all vectors.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "dot_int8.h"
#include "lanes.h"
#include "pool.h"
#include "quantized.h"
#include "rounded.h"

/// TOKENS vectors in 8 bits, in the order in which the panels meet them.
template <int TOKENS>
struct Together {
  std::vector<Eight> values;  // word x token
  std::vector<float> scales;  // group x token
  std::vector<float> sums;    // group x token

  Together(const float* x, int inputs, int group_size)
      : values(inputs / PER_WORD * TOKENS), scales(inputs / group_size * TOKENS), sums(scales.size()) {
    pool().run(TOKENS, std::max(1, 8192 / inputs), [&](int first, int last) {
      for (int64_t t = first; t < last; ++t)
        for (int g = 0; g < inputs / group_size; ++g) {
          const int at = g * TOKENS + int(t);
          round_group(x + t * inputs + g * group_size, group_size, scales[at], sums[at],
                      &values[g * group_size / PER_WORD * TOKENS + t], TOKENS);
        }
    });
  }
};

/// Transposes a square of LANES registers. Of each four blocks of STEP x STEP lanes, the two beside the diagonal change
/// places, for STEP 1, 2, 4 and so on.
template <uint32_t STEP, uint32_t... LANE>
inline void transpose(Words* rows, std::integer_sequence<uint32_t, LANE...> lanes) {
  for (int r = 0; r < LANES; ++r) {
    if (r & STEP) continue;
    const Words above = rows[r], below = rows[r + STEP];
    rows[r] = pick<(LANE & STEP ? LANE - STEP + LANES : LANE)...>(above, below);
    rows[r + STEP] = pick<(LANE & STEP ? LANE + LANES : LANE + STEP)...>(above, below);
  }
  if constexpr (2 * STEP < LANES) transpose<2 * STEP>(rows, lanes);
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
  transpose<1>(registers, std::make_integer_sequence<uint32_t, LANES>());
}

/// A panel, LANES rows of W or fewer, times all vectors.
template <int TOKENS>
static void panel(const Together<TOKENS>& x, const uint32_t* packed, const float* scales, const float* biases,
                  int groups, int words_of_group, float* y, int outputs, int rows) {
  Words square[LANES];
  Floats totals[TOKENS] = {};
  for (int g = 0; g < groups; ++g) {
    Ints dots[TOKENS] = {};
    for (int w = g * words_of_group; w < (g + 1) * words_of_group; ++w) {
      if (w % LANES == 0) columns_from(w, packed, rows, groups * words_of_group, square);
      for (int t = 0; t < TOKENS; ++t) {
        const Eight& value = x.values[w * TOKENS + t];
        dots[t] = add_dot(dots[t], square[w % LANES], value.even - Ints{}, value.odd - Ints{});
      }
    }
    const Floats scale = load(scales + g * LANES), bias = load(biases + g * LANES);
    for (int t = 0; t < TOKENS; ++t) {
      const int at = g * TOKENS + t;
      totals[t] += __builtin_convertvector(dots[t], Floats) * (scale * x.scales[at]) + bias * x.sums[at];
    }
  }
  for (int t = 0; t < TOKENS; ++t) std::memcpy(y + int64_t(t) * outputs, &totals[t], sizeof(float) * rows);
}

/// Scales or biases of a panel: groups x LANES.
static void of_panel(const void* from, int64_t first, int rows, int groups, int scale_type, float* wide, float* to) {
  widen(from, first * groups, rows * groups, scale_type, wide);
  for (int g = 0; g < groups; ++g) {
    Floats lanes{};
    for (int r = 0; r < LANES; ++r) lanes[r] = wide[r * groups + g];
    store(to + g * LANES, lanes);
  }
}

/// So many vectors, known when this is compiled; or one fewer, and so on.
template <int TOKENS>
static void of(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
               int outputs, int inputs, int group_size, int scale_type) {
  if constexpr (TOKENS > 0) {
    if (tokens < TOKENS)
      return of<TOKENS - 1>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
    const Together<TOKENS> together(x, inputs, group_size);
    const int words = inputs / PER_WORD, groups = inputs / group_size, panels = (outputs + LANES - 1) / LANES;
    pool().run(panels, std::clamp(panels / (4 * pool().threads()), 1, 8), [&](int begin, int end) {
      OwnLines room(3 * LANES * groups);
      float *scale = room.data(), *bias = scale + LANES * groups, *wide = bias + LANES * groups;
      for (int64_t o = begin * LANES; o < std::min(end * LANES, outputs); o += LANES) {
        const int rows = std::min(LANES, outputs - int(o));
        of_panel(scales, o, rows, groups, scale_type, wide, scale);
        of_panel(biases, o, rows, groups, scale_type, wide, bias);
        panel(together, packed + o * words, scale, bias, groups, group_size / PER_WORD, y + o, outputs, rows);
      }
    });
  }
}

/// x: tokens x inputs, y: tokens x outputs, float32, for 1 to 8 tokens; W as `quantized.h` says.
extern "C" void matvecs_int8(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                             int tokens, int outputs, int inputs, int group_size, int scale_type) {
  of<8>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
}

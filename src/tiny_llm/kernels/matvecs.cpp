// --- given
// A quantized matrix times a few vectors, Y = X W^T: what an engine does when some requests write a token each.
//
// As `matvec.cpp` goes through a row of W, and memory likes that best; but what it unpacks meets all vectors while it
// is in a register. `matmul.cpp` has a panel for that, which pays only where many vectors meet it.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "quantized.h"

// Rows of W that are gone through side by side, where there are registers for the sums of both.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int SIDE_BY_SIDE = 2;
#else
constexpr int SIDE_BY_SIDE = 1;
#endif

constexpr int PIECE = 8192 / BLOCK;  // blocks, divided by vectors: so much of x stays in the innermost cache

/// TOKENS vectors in the order in which the rows of W use them: block x digit x token x lane, with zeros at the end.
template <int TOKENS>
static std::vector<float> arranged(const float* x, int inputs) {
  std::vector<float> values((inputs + BLOCK - 1) / BLOCK * BLOCK * TOKENS);
  for (int t = 0; t < TOKENS; ++t)
    for (int i = 0; i < inputs; ++i) {
      const int block = i / BLOCK, lane = i % BLOCK / PER_WORD, digit = i % PER_WORD;
      values[((block * PER_WORD + digit) * TOKENS + t) * LANES + lane] = x[int64_t(t) * inputs + i];
    }
  return values;
}

/// Adds to y what some blocks of ROWS rows of W, from row o on, give with all vectors.
template <int TOKENS, int ROWS>
static void add(const float* x, const uint32_t* packed, const float* scales, const float* biases, int room, float* y,
                int begin, int end, int outputs, int words, int group_size) {
  Floats sums[ROWS][TOKENS] = {};
  for (int block = begin; block < end; ++block) {
    Words word[ROWS];
    Floats scale[ROWS], bias[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      const uint32_t* from = packed + r * words + block * LANES;
      __builtin_prefetch(from + 512);
      word[r] = words_of_block(from, words - block * LANES);
      scale[r] = scales_of_block(scales + r * room, block, group_size);
      bias[r] = scales_of_block(biases + r * room, block, group_size);
    }
    for (int digit = 0; digit < PER_WORD; ++digit) {
      Floats w[ROWS];
      for (int r = 0; r < ROWS; ++r) w[r] = to_floats(word[r] >> (4 * digit) & 15) * scale[r] + bias[r];
      for (int t = 0; t < TOKENS; ++t) {
        const Floats value = load(x + ((block * PER_WORD + digit) * TOKENS + t) * LANES);
        for (int r = 0; r < ROWS; ++r) sums[r][t] += w[r] * value;
      }
    }
  }
  for (int t = 0; t < TOKENS; ++t)
    for (int r = 0; r < ROWS; ++r) y[int64_t(t) * outputs + r] += sum(sums[r][t]);
}

/// Rows first .. last - 1 of W times all vectors, a piece of the vectors after another.
template <int TOKENS>
static void rows(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int first,
                 int last, int outputs, int inputs, int group_size, int scale_type) {
  const int words = inputs / PER_WORD, groups = inputs / group_size, room = groups + LANES;
  const int blocks = (inputs + BLOCK - 1) / BLOCK, piece = PIECE / TOKENS;
  OwnLines wide(int64_t(2 * room) * (last - first));
  float *scale = wide.data(), *bias = scale + int64_t(room) * (last - first);
  for (int o = first; o < last; ++o) {
    widen(scales, int64_t(o) * groups, groups, scale_type, scale + int64_t(o - first) * room);
    widen(biases, int64_t(o) * groups, groups, scale_type, bias + int64_t(o - first) * room);
    for (int t = 0; t < TOKENS; ++t) y[int64_t(t) * outputs + o] = 0;
  }
  for (int begin = 0; begin < blocks; begin += piece) {
    const int end = std::min(blocks, begin + piece);
    for (int o = first; o < last;) {
      const int64_t at = int64_t(o - first) * room;
      const uint32_t* row = packed + int64_t(o) * words;
      if (o + SIDE_BY_SIDE <= last) {
        add<TOKENS, SIDE_BY_SIDE>(x, row, scale + at, bias + at, room, y + o, begin, end, outputs, words, group_size);
        o += SIDE_BY_SIDE;
      } else {
        add<TOKENS, 1>(x, row, scale + at, bias + at, room, y + o, begin, end, outputs, words, group_size);
        ++o;
      }
    }
  }
}

/// So many vectors, known when this is compiled; or one fewer, and so on.
template <int TOKENS>
static void of(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
               int outputs, int inputs, int group_size, int scale_type) {
  if constexpr (TOKENS > 0) {
    if (tokens < TOKENS)
      return of<TOKENS - 1>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
    const std::vector<float> values = arranged<TOKENS>(x, inputs);
    const int chunk = std::clamp(outputs / (4 * pool().threads()), 16, 128);
    pool().run(outputs, chunk, [&](int first, int last) {
      for (; first < last; first += chunk)
        rows<TOKENS>(values.data(), packed, scales, biases, y, first, std::min(first + chunk, last), outputs, inputs,
                     group_size, scale_type);
    });
  }
}

/// x: tokens x inputs, y: tokens x outputs, float32, for 1 to 8 tokens; W as `quantized.h` says.
extern "C" void matvecs(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                        int tokens, int outputs, int inputs, int group_size, int scale_type) {
  of<8>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
}

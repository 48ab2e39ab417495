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

/// Numbers of the groups of one block, each in the lanes of its words.
static inline Floats spread(const float* groups, int block, int group_size) {
  if (group_size >= BLOCK) return all(groups[block >> group_size / BLOCK / 2]);  // a group has 1, 2 or 4 blocks
  Floats found = all(groups[block * BLOCK / group_size]);
  Ints lane;
  for (int i = 0; i < LANES; ++i) lane[i] = i;
  for (int part = 1; part < BLOCK / group_size; ++part)
    found = lane < part * group_size / PER_WORD ? found : all(groups[block * BLOCK / group_size + part]);
  return found;
}

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

/// ROWS rows of W, from row o on, times all vectors.
template <int TOKENS, int ROWS>
static void rows(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int64_t o,
                 int outputs, int inputs, int group_size, int scale_type, float* unpacked) {
  const int words = inputs / PER_WORD, groups = inputs / group_size, room = groups + LANES;
  for (int r = 0; r < ROWS; ++r)
    for (int g = 0; g < groups; ++g) {
      unpacked[2 * r * room + g] = number_at(scales, (o + r) * groups + g, scale_type);
      unpacked[(2 * r + 1) * room + g] = number_at(biases, (o + r) * groups + g, scale_type);
    }
  Floats sums[ROWS][TOKENS] = {};
  for (int block = 0; block * LANES < words; ++block) {
    Words word[ROWS];
    Floats scale[ROWS], bias[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      const uint32_t* row = packed + (o + r) * words + block * LANES;
      __builtin_prefetch(row + 512);
      word[r] = words_of_block(row, words - block * LANES);
      scale[r] = spread(unpacked + 2 * r * room, block, group_size);
      bias[r] = spread(unpacked + (2 * r + 1) * room, block, group_size);
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
  for (int r = 0; r < ROWS; ++r)
    for (int t = 0; t < TOKENS; ++t) y[int64_t(t) * outputs + o + r] = sum(sums[r][t]);
}

/// So many vectors, known when this is compiled; or one fewer, and so on.
template <int TOKENS>
static void of(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
               int outputs, int inputs, int group_size, int scale_type) {
  if constexpr (TOKENS > 0) {
    if (tokens < TOKENS)
      return of<TOKENS - 1>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
    const std::vector<float> values = arranged<TOKENS>(x, inputs);
    pool().run(outputs, std::max(16, outputs / (4 * pool().threads())), [&](int first, int last) {
      OwnLines unpacked(2 * SIDE_BY_SIDE * (inputs / group_size + LANES));
      int o = first;
      for (; o + SIDE_BY_SIDE <= last; o += SIDE_BY_SIDE)
        rows<TOKENS, SIDE_BY_SIDE>(values.data(), packed, scales, biases, y, o, outputs, inputs, group_size,
                                   scale_type, unpacked.data());
      for (; o < last; ++o)
        rows<TOKENS, 1>(values.data(), packed, scales, biases, y, o, outputs, inputs, group_size, scale_type,
                        unpacked.data());
    });
  }
}

/// x: tokens x inputs, y: tokens x outputs, float32, for 1 to 8 tokens; W as `quantized.h` says.
extern "C" void matvecs(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                        int tokens, int outputs, int inputs, int group_size, int scale_type) {
  of<8>(x, packed, scales, biases, y, tokens, outputs, inputs, group_size, scale_type);
}

// --- given
// A quantized matrix times a few vectors whose numbers are rounded to 8 bits: what `matvecs.cpp` is to `matvec.cpp`,
// this is to `matvec_int8.cpp`. Each vector is rounded by itself, so it does not matter which others are there.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "dot_int8.h"
#include "lanes.h"
#include "pool.h"
#include "quantized.h"
#include "rounded.h"

/// TOKENS vectors in 8 bits, in the order in which the rows of W use them.
template <int TOKENS, int GROUP>
struct Together {
  std::vector<int8_t> values;  // block x token x (even weights, odd weights), as `Rounded` has them
  std::vector<float> scales;   // block x token x lane: of the group that the lane's word is in
  std::vector<float> sums;     // token x group, with zeros at the end
  int blocks, room;

  Together(const float* x, int inputs) : blocks((inputs + BLOCK - 1) / BLOCK), room(inputs / GROUP + LANES) {
    values.resize(int64_t(blocks) * TOKENS * BLOCK);
    scales.resize(int64_t(blocks) * TOKENS * LANES);
    sums.resize(int64_t(TOKENS) * room);
    for (int64_t t = 0; t < TOKENS; ++t) {
      Rounded rounded(x + t * inputs, inputs, GROUP);
      std::copy(rounded.sums.begin(), rounded.sums.end(), &sums[t * room]);
      rounded.scales.resize(room);
      for (int64_t block = 0; block < blocks; ++block) {
        const int64_t at = block * TOKENS + t;
        std::copy_n(&rounded.values[block * BLOCK], BLOCK, &values[at * BLOCK]);
        store(&scales[at * LANES], scales_of_block(rounded.scales.data(), int(block), GROUP));
      }
    }
  }
};

/// A row of W times all vectors: what is unpacked of it meets each of them while it is in a register. scale and bias
/// are those of the row, with zeros at the end.
template <int TOKENS, int GROUP>
static void row(const Together<TOKENS, GROUP>& x, const uint32_t* packed, const float* scale, const float* bias,
                float* y, int outputs, int words) {
  Floats totals[TOKENS] = {};
  for (int g = 0; g < words * PER_WORD / GROUP; g += LANES)
    for (int t = 0; t < TOKENS; ++t) totals[t] += load(bias + g) * load(&x.sums[t * x.room + g]);
  auto add = [&](int block, Words word) {
    const Floats scales = scales_of_block(scale, block, GROUP);
    for (int t = 0; t < TOKENS; ++t) {
      const int64_t at = int64_t(block) * TOKENS + t;
      const Ints dot = dot_of_words(word, &x.values[at * BLOCK]);
      totals[t] += __builtin_convertvector(dot, Floats) * (scales * load(&x.scales[at * LANES]));
    }
  };
  const int whole = words / LANES;
  for (int block = 0; block < whole; ++block) {
    if (block % LINE == 0) __builtin_prefetch(packed + block * LANES + 512);
    add(block, load<Words>(packed + block * LANES));
  }
  if (words > whole * LANES) add(whole, words_of_block(packed + whole * LANES, words - whole * LANES));
  for (int t = 0; t < TOKENS; ++t) y[int64_t(t) * outputs] = sum(totals[t]);
}

/// So many vectors, known when this is compiled; or one fewer, and so on.
template <int TOKENS, int GROUP>
static void of(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
               int outputs, int inputs, int scale_type) {
  if constexpr (TOKENS > 0) {
    if (tokens < TOKENS)
      return of<TOKENS - 1, GROUP>(x, packed, scales, biases, y, tokens, outputs, inputs, scale_type);
    const Together<TOKENS, GROUP> together(x, inputs);
    const int chunk = std::clamp(outputs / (4 * pool().threads()), 16, 128);
    const int words = inputs / PER_WORD, groups = inputs / GROUP;
    pool().run(outputs, chunk, [&](int first, int last) {
      OwnLines scale(together.room), bias(together.room);
      for (int64_t o = first; o < last; ++o) {
        widen(scales, o * groups, groups, scale_type, scale.data());
        widen(biases, o * groups, groups, scale_type, bias.data());
        row(together, packed + o * words, scale.data(), bias.data(), y + o, outputs, words);
      }
    });
  }
}

/// x: tokens x inputs, y: tokens x outputs, float32, for 1 to 8 tokens; W as `quantized.h` says.
extern "C" void matvecs_int8(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                             int tokens, int outputs, int inputs, int group_size, int scale_type) {
  auto each = group_size == 32 ? of<8, 32> : group_size == 64 ? of<8, 64> : of<8, 128>;
  each(x, packed, scales, biases, y, tokens, outputs, inputs, scale_type);
}

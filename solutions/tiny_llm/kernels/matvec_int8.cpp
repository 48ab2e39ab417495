// A quantized matrix times one vector that is rounded to 8 bits: less accurate, and several times as fast.
//
// `matvec.cpp` spends most of its time converting 4-bit weights to floats. Integer products need no conversion: x gets
// a scale for each group, as W has, and only the sums of a block are converted to float.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "dot_int8.h"
#include "lanes.h"
#include "pool.h"
#include "quantized.h"
#include "rounded.h"

/// As `matvec_threads`, with x rounded to 8 bits.
extern "C" void matvec_int8(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                            int outputs, int inputs, int group_size, int scale_type) {
  // --- your code: matvec_int8
  const Rounded rounded(x, inputs, group_size);
  const int words = inputs / PER_WORD, groups = inputs / group_size, whole = words / LANES;  // whole blocks
  const int chunk = std::max(16, outputs / (4 * pool().threads()));
  pool().run(outputs, chunk, [&](int first, int last) {
    OwnLines scaled(groups + LANES);  // of one row, each with the scale of x; and zeros
    for (int64_t o = first; o < last; ++o) {
      const uint32_t* row = packed + o * words;
      const float added = prepare_scales(scales, biases, scale_type, o, groups, rounded.scales.data(),
                                         rounded.sums.data(), scaled.data());
      Floats total{};
      auto add = [&](int block, Words word) {
        const Ints dot = dot_of_words(word, rounded.values.data() + block * BLOCK);
        total += __builtin_convertvector(dot, Floats) * scales_of_block(scaled.data(), block, group_size);
      };
      for (int block = 0; block < whole; ++block) {
        if (block % LINE == 0) __builtin_prefetch(row + block * LANES + 512);
        add(block, load<Words>(row + block * LANES));
      }
      if (words > whole * LANES) add(whole, words_of_block(row + whole * LANES, words - whole * LANES));
      y[o] = sum(total) + added;
    }
  });
  // --- end
}

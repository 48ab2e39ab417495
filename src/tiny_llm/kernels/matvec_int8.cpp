// A quantized matrix times one vector whose numbers are rounded to 8 bits: less exact, and several times as fast.
//
// Turning 4-bit weights into floats is most of what `matvec.cpp` does. A product of small whole numbers needs no
// floats: x gets a scale for each group, as W has, and only the sums of a block are turned into floats.
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
  throw std::runtime_error("2.4.5 Eight bits for x, too");
  // --- end
}

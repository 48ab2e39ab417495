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
  throw std::runtime_error("2.4.5 int8 activations");
  // --- end
}

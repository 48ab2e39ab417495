// --- given
// RMSNorm and SwiGLU for training: forward and backward, each in one pass over its rows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "training.h"

constexpr int NUMBERS = 1 << 14;  // per chunk: 64 KiB of each array

/// The factor that RMSNorm multiplies a row by.
static float scale_of(const float* x, int size, float eps) { return 1 / std::sqrt(dot(x, x, size) / size + eps); }

extern "C" void rms_norm(const float* x, const float* weight, float* y, int rows, int size, float eps) {
  pool().run(rows, std::max(1, NUMBERS / size), [&](int begin, int end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* in = x + row * size;
      float* out = y + row * size;
      const float scale = scale_of(in, size, eps);
      for (int i = 0; i < size; ++i) out[i] = in[i] * scale * weight[i];
    }
  });
}

extern "C" void rms_norm_vjp(const float* x, const float* weight, const float* dy, float* dx, float* dweight, int rows,
                             int size, float eps) {
  // dweight is a sum over all rows. Each chunk of rows has a sum of its own, or two threads would write to the same
  // numbers; and the chunks are added in order, so that the result does not depend on the number of threads.
  const int chunk = std::max(1, NUMBERS / size), chunks = (rows + chunk - 1) / chunk;
  std::vector<float> sums(int64_t(chunks) * size);
  pool().run(chunks, 1, [&](int begin, int end) {
    std::vector<float> dn(size);
    for (int64_t c = begin; c < end; ++c)
      for (int64_t row = c * chunk; row < std::min<int64_t>(rows, (c + 1) * chunk); ++row) {
        const float *in = x + row * size, *d = dy + row * size;
        float *out = dx + row * size, *sum = sums.data() + c * size;
        const float scale = scale_of(in, size, eps);
        for (int i = 0; i < size; ++i) dn[i] = d[i] * weight[i];
        const float along = dot(dn.data(), in, size) * scale * scale / size;
        for (int i = 0; i < size; ++i) {
          out[i] = scale * (dn[i] - in[i] * along);
          sum[i] += d[i] * in[i] * scale;
        }
      }
  });
  std::fill(dweight, dweight + size, 0.0f);
  for (int64_t c = 0; c < chunks; ++c)
    for (int i = 0; i < size; ++i) dweight[i] += sums[c * size + i];
}

/// Calls each(first, count) for pieces of at most LANES numbers, on all cores.
template <class Each>
static void in_pieces(int count, Each each) {
  pool().run(count, NUMBERS, [&](int begin, int end) {
    int i = begin;
    for (; i + LANES <= end; i += LANES) each(i, LANES);
    if (i < end) each(i, end - i);
  });
}

static Floats loaded(const float* from, int count) {
  Floats v{};
  std::memcpy(&v, from, count == LANES ? sizeof v : sizeof(float) * count);
  return v;
}

static void stored(float* to, Floats v, int count) {
  std::memcpy(to, &v, count == LANES ? sizeof v : sizeof(float) * count);
}

extern "C" void swiglu(const float* gate, const float* up, float* y, int count) {
  in_pieces(count, [=](int i, int n) {
    const Floats g = loaded(gate + i, n);
    stored(y + i, g / (1.0f + exp(-g)) * loaded(up + i, n), n);
  });
}

extern "C" void swiglu_vjp(const float* gate, const float* up, const float* dy, float* dgate, float* dup, int count) {
  in_pieces(count, [=](int i, int n) {
    const Floats g = loaded(gate + i, n), d = loaded(dy + i, n), sigmoid = 1.0f / (1.0f + exp(-g));
    stored(dgate + i, d * loaded(up + i, n) * sigmoid * (1.0f + g * (1.0f - sigmoid)), n);
    stored(dup + i, d * g * sigmoid, n);
  });
}

// --- given
#include "layer.h"

#include <algorithm>
#include <cmath>

#include "../kernels.h"
#include "../lanes.h"
#include "../pool.h"

void multiply(const Matrix& w, const float* x, float* y, int rows, MatmulOptions options) {
  const bool batched = options.small_batch || rows > 1;  // small_batch: a token's result does not depend on the batch
  if (options.int8 && batched)
    return matvecs_int8(x, w.packed, w.scales, w.biases, y, rows, w.outputs, w.inputs, w.group_size, w.scale_type);
  if (rows == 1)
    return (options.int8 ? matvec_int8 : matvec_threads)(x, w.packed, w.scales, w.biases, y, w.outputs, w.inputs,
                                                      w.group_size, w.scale_type);
  (options.small_batch && rows <= 8 ? matvecs : matmul)(x, w.packed, w.scales, w.biases, y, rows, w.outputs, w.inputs,
                                             w.group_size, w.scale_type);
}

void norm(const float* x, const float* weight, float eps, float* y, int n) {
  const float scale = 1 / std::sqrt(dot(x, x, n) / n + eps);
  for (int i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

/// RoPE, in place: rotates the pairs (i, i + dims / 2) by the angles of one position.
static void rotate(float* head, const float* cos, const float* sin, int dims) {
  const int half = dims / 2;
  for (int i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cos[i] - b * sin[i];
    head[i + half] = b * cos[i] + a * sin[i];
  }
}

/// y = silu(gate) * up.
static void swiglu(const float* gate, const float* up, float* y, int n) {
  int i = 0;
  for (; i + LANES <= n; i += LANES)
    store(y + i, load(gate + i) / (1.0f + exp(-load(gate + i))) * load(up + i));
  for (; i < n; ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

/// Minimum rows per thread (grain size), for rows of this many numbers.
static int grain_size(int64_t numbers) { return int(std::max<int64_t>(1, 2048 / numbers)); }

Scratch::Scratch(const Layer& layer, int64_t tokens)
    : normed(tokens * layer.hidden),
      qkv(tokens * layer.qkv.outputs),
      attended(tokens * layer.out.inputs),
      product(tokens * layer.hidden),
      gate_up(tokens * layer.gate_up.outputs),
      gated(tokens * layer.width) {}

void run_layer(const Layer& layer, int number, float* residual, const Step& step, KVCache& kv_cache, Scratch& scratch) {
  const int rows = int(step.tokens.size()), dims = layer.head_dim;
  const int64_t hidden = layer.hidden, width = layer.width;
  const int64_t q_size = layer.heads * dims, kv_size = layer.kv_heads * dims, qkv_size = q_size + 2 * kv_size;
  OwnLines &normed = scratch.normed, &qkv = scratch.qkv, &attended = scratch.attended, &product = scratch.product,
           &gate_up = scratch.gate_up, &gated = scratch.gated;

  // Queries, keys and values.
  pool().run(rows, grain_size(hidden), [&](int first, int last) {
    for (int64_t r = first; r < last; ++r)
      norm(residual + r * hidden, layer.input_norm, layer.eps, &normed[r * hidden], hidden);
  });
  multiply(layer.qkv, normed.data(), qkv.data(), rows, step.options);
  pool().run(rows, grain_size(qkv_size), [&](int first, int last) {
    for (int64_t r = first; r < last; ++r) {
      float* row = &qkv[r * qkv_size];
      if (layer.qkv_bias)
        for (int i = 0; i < qkv_size; ++i) row[i] += layer.qkv_bias[i];
      const int64_t angles = int64_t(step.positions[r]) * (dims / 2);
      for (int h = 0; h < layer.heads + layer.kv_heads; ++h) {
        const float* weight = h < layer.heads ? layer.q_norm : layer.k_norm;
        if (weight) norm(row + h * dims, weight, layer.eps, row + h * dims, dims);
        rotate(row + h * dims, layer.cos + angles, layer.sin + angles, dims);
      }
      kv_cache.append(number, int(r), row + q_size, row + q_size + kv_size);
    }
  });
  kv_cache.attend(number, qkv.data(), qkv_size, attended.data());
  multiply(layer.out, attended.data(), product.data(), rows, step.options);

  // The MLP, on the updated residual stream.
  pool().run(rows, grain_size(hidden), [&](int first, int last) {
    for (int64_t r = first; r < last; ++r) {
      for (int64_t i = r * hidden; i < (r + 1) * hidden; ++i) residual[i] += product[i];
      norm(residual + r * hidden, layer.mlp_norm, layer.eps, &normed[r * hidden], hidden);
    }
  });
  multiply(layer.gate_up, normed.data(), gate_up.data(), rows, step.options);
  pool().run(rows, grain_size(2 * width), [&](int first, int last) {
    for (int64_t r = first; r < last; ++r)
      swiglu(&gate_up[r * 2 * width], &gate_up[r * 2 * width + width], &gated[r * width], width);
  });
  multiply(layer.down, gated.data(), product.data(), rows, step.options);
  for (int64_t i = 0; i < rows * hidden; ++i) residual[i] += product[i];
}

// --- given
#include "layer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../kernels.h"
#include "../lanes.h"
#include "../pool.h"

void multiply(const Matrix& w, const float* x, float* y, int rows, bool int8) {
  if (rows > 1)
    return matmul(x, w.packed, w.scales, w.biases, y, rows, w.outputs, w.inputs, w.group_size, w.scale_type);
  (int8 ? matvec_int8 : matvec_threads)(x, w.packed, w.scales, w.biases, y, w.outputs, w.inputs, w.group_size,
                                        w.scale_type);
}

void norm(const float* x, const float* weight, float eps, float* y, int n) {
  const float scale = 1 / std::sqrt(dot(x, x, n) / n + eps);
  for (int i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

/// RoPE, in place: turns the pairs (i, i + dims / 2) by the angles of one position.
static void turn(float* head, const float* cos, const float* sin, int dims) {
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

/// Attention of all tokens in blocks, a row of the batch after another.
static void attend_in_blocks(const Layer& layer, const float* qkv, const Cache& cache, float* attended,
                             const Reading& reading) {
  const int dims = layer.head_dim, batch = reading.batch, length = reading.length, tokens = reading.offset + length;
  const int64_t q_size = layer.heads * dims, qkv_size = q_size + 2 * layer.kv_heads * dims;
  std::vector<float> queries(length * q_size);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < length; ++t) std::copy_n(qkv + (b * length + t) * qkv_size, q_size, &queries[t * q_size]);
    std::vector<const float*> keys, values;
    for (int64_t head = b * layer.kv_heads; head < (b + 1) * layer.kv_heads; ++head) {
      keys.push_back(cache.keys[head].data());
      values.push_back(cache.values[head].data());
    }
    flash_attention(queries.data(), keys.data(), values.data(), attended + b * length * q_size, layer.heads,
                    layer.kv_heads, dims, length, tokens, 1 / std::sqrt(float(dims)));
  }
}

void run_layer(const Layer& layer, float* stream, Cache& cache, const Reading& reading) {
  const int batch = reading.batch, length = reading.length, rows = batch * length, offset = reading.offset;
  const bool int8 = reading.int8, flash = reading.flash;
  const int dims = layer.head_dim, group = layer.heads / layer.kv_heads;
  const int64_t hidden = layer.hidden, width = layer.width;
  const int64_t q_size = layer.heads * dims, kv_size = layer.kv_heads * dims, qkv_size = q_size + 2 * kv_size;
  OwnLines normed(rows * hidden), qkv(rows * qkv_size), attended(rows * q_size), product(rows * hidden),
      gate_up(rows * 2 * width), gated(rows * width);
  for (auto* kept : {&cache.keys, &cache.values}) {
    kept->resize(batch * layer.kv_heads);
    for (auto& head : *kept) head.resize(int64_t(offset + length) * dims);
  }

  // Queries, keys and values.
  pool().run(rows, 1, [&](int first, int last) {
    for (int64_t r = first; r < last; ++r)
      norm(stream + r * hidden, layer.input_norm, layer.eps, &normed[r * hidden], hidden);
  });
  multiply(layer.qkv, normed.data(), qkv.data(), rows, int8);
  pool().run(rows, 1, [&](int first, int last) {
    for (int64_t r = first; r < last; ++r) {
      float* row = &qkv[r * qkv_size];
      if (layer.qkv_bias)
        for (int i = 0; i < qkv_size; ++i) row[i] += layer.qkv_bias[i];
      const int64_t position = offset + r % length, angles = position * (dims / 2);
      for (int h = 0; h < layer.heads + layer.kv_heads; ++h) {
        const float* weight = h < layer.heads ? layer.q_norm : layer.k_norm;
        if (weight) norm(row + h * dims, weight, layer.eps, row + h * dims, dims);
        turn(row + h * dims, layer.cos + angles, layer.sin + angles, dims);
      }
      for (int h = 0; h < layer.kv_heads; ++h) {
        const int64_t head = r / length * layer.kv_heads + h;
        std::copy_n(row + q_size + h * dims, dims, &cache.keys[head][position * dims]);
        std::copy_n(row + q_size + kv_size + h * dims, dims, &cache.values[head][position * dims]);
      }
    }
  });

  // Attention: each token and each group of heads for itself, or in blocks.
  if (flash) attend_in_blocks(layer, qkv.data(), cache, attended.data(), reading);
  pool().run(flash ? 0 : rows * layer.kv_heads, 1, [&](int first, int last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t r = i / layer.kv_heads, h = i % layer.kv_heads, head = r / length * layer.kv_heads + h;
      attend(&qkv[r * qkv_size + h * group * dims], cache.keys[head].data(), cache.values[head].data(),
             &attended[r * q_size + h * group * dims], group, dims, offset + int(r % length) + 1,
             1 / std::sqrt(float(dims)));
    }
  });
  multiply(layer.out, attended.data(), product.data(), rows, int8);

  // The MLP, on what the stream is now.
  pool().run(rows, 1, [&](int first, int last) {
    for (int64_t r = first; r < last; ++r) {
      for (int64_t i = r * hidden; i < (r + 1) * hidden; ++i) stream[i] += product[i];
      norm(stream + r * hidden, layer.mlp_norm, layer.eps, &normed[r * hidden], hidden);
    }
  });
  multiply(layer.gate_up, normed.data(), gate_up.data(), rows, int8);
  pool().run(rows, 1, [&](int first, int last) {
    for (int64_t r = first; r < last; ++r)
      swiglu(&gate_up[r * 2 * width], &gate_up[r * 2 * width + width], &gated[r * width], width);
  });
  multiply(layer.down, gated.data(), product.data(), rows, int8);
  for (int64_t i = 0; i < rows * hidden; ++i) stream[i] += product[i];
}

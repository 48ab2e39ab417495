// --- given
#include "caches.h"

#include <algorithm>
#include <cmath>

#include "../kernels.h"
#include "../pool.h"

DenseKVCache::DenseKVCache(const Layer& layer, int layers, std::vector<Cache>& caches, const Batch& batch)
    : layer(layer), caches(caches), batch(batch) {
  caches.resize(layers);
  for (Cache& cache : caches)
    for (auto* kept : {&cache.keys, &cache.values}) {
      kept->resize(batch.rows * layer.kv_heads);
      for (auto& head : *kept) head.resize(int64_t(batch.offset + batch.length) * layer.head_dim);
    }
}

void DenseKVCache::append(int number, int row, const float* keys, const float* values) {
  const int64_t dims = layer.head_dim, at = (batch.offset + row % batch.length) * dims;
  for (int h = 0; h < layer.kv_heads; ++h) {
    const int64_t head = row / batch.length * layer.kv_heads + h;
    std::copy_n(keys + h * dims, dims, &caches[number].keys[head][at]);
    std::copy_n(values + h * dims, dims, &caches[number].values[head][at]);
  }
}

/// Each token and group of heads is a task of its own; with flash attention, each row's tokens are processed in blocks.
void DenseKVCache::attend(int number, const float* queries, int64_t stride, float* attended) {
  const Cache& cache = caches[number];
  if (batch.flash) return attend_in_blocks(cache, queries, stride, attended);
  const int dims = layer.head_dim, group = layer.heads / layer.kv_heads, length = batch.length;
  pool().run(batch.rows * length * layer.kv_heads, 1, [&](int first, int last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t r = i / layer.kv_heads, h = i % layer.kv_heads, head = r / length * layer.kv_heads + h;
      ::attend(queries + r * stride + h * group * dims, cache.keys[head].data(), cache.values[head].data(),
               attended + (r * layer.heads + h * group) * dims, group, dims, batch.offset + int(r % length) + 1,
               1 / std::sqrt(float(dims)));
    }
  });
}

void DenseKVCache::attend_in_blocks(const Cache& cache, const float* queries, int64_t stride, float* attended) {
  const int dims = layer.head_dim, length = batch.length;
  const int64_t q_size = layer.heads * dims;
  std::vector<float> mine(length * q_size);
  for (int64_t b = 0; b < batch.rows; ++b) {
    for (int64_t t = 0; t < length; ++t) std::copy_n(queries + (b * length + t) * stride, q_size, &mine[t * q_size]);
    std::vector<const float*> keys, values;
    for (int64_t head = b * layer.kv_heads; head < (b + 1) * layer.kv_heads; ++head) {
      keys.push_back(cache.keys[head].data());
      values.push_back(cache.values[head].data());
    }
    flash_attention(mine.data(), keys.data(), values.data(), attended + b * length * q_size, layer.heads,
                    layer.kv_heads, dims, length, batch.offset + length, 1 / std::sqrt(float(dims)));
  }
}

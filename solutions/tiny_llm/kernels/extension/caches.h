// --- given
// Week 2's KV cache: batch rows of equal length, each with its own arrays.
#pragma once
#include <vector>

#include "layer.h"

/// One layer's keys and values: for each row and each of its kv_heads, tokens x head_dim.
struct Cache {
  std::vector<std::vector<float>> keys, values;  // std::vector doubles its capacity as tokens are appended
};

/// The shape of a step.
struct Batch {
  int rows, length, offset;  // `length` new tokens in each of `rows` rows, after `offset` cached ones
  bool flash;                // flash attention instead of attention token by token
};

/// The caches of all layers, as one step uses them.
class DenseKVCache : public KVCache {
 public:
  DenseKVCache(const Layer& layer, int layers, std::vector<Cache>& caches, const Batch& batch);
  void append(int number, int row, const float* keys, const float* values) override;
  void attend(int number, const float* queries, int64_t stride, float* attended) override;

 private:
  void attend_in_blocks(const Cache& cache, const float* queries, int64_t stride, float* attended);

  const Layer& layer;
  std::vector<Cache>& caches;
  Batch batch;
};

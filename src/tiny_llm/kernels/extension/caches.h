// --- given
// Week 2's memory: some texts that are equally long, each with arrays of its own.
#pragma once
#include <vector>

#include "layer.h"

/// One layer's keys and values: for each row and each of its kv_heads, tokens x head_dim.
struct Cache {
  std::vector<std::vector<float>> keys, values;  // a vector that grows by a token takes room for twice as many
};

/// Which tokens are read, and how.
struct Reading {
  int batch, length, offset;  // `length` new tokens of each of `batch` rows, behind `offset` that the caches hold
  bool flash;                 // whether attention goes block by block
};

/// The caches of all layers, while a step reads.
class InCaches : public Memory {
 public:
  InCaches(const Layer& layer, int layers, std::vector<Cache>& caches, const Reading& reading);
  void keep(int number, int row, const float* keys, const float* values) override;
  void attend(int number, const float* queries, int64_t stride, float* attended) override;

 private:
  void attend_in_blocks(const Cache& cache, const float* queries, int64_t stride, float* attended);

  const Layer& layer;
  std::vector<Cache>& caches;
  Reading reading;
};

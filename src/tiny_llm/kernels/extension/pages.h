// --- given
// Week 3's KV cache: pages, shared by all requests, and steps with tokens of several requests.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "layer.h"

/// Keys and values in pages: for each layer pages x kv_heads x page_size x head_dim.
struct Pages {
  int layers, pages, page_size, kv_heads, dims;
  std::vector<std::unique_ptr<float[]>> keys, values;

  Pages(int layers, int pages, int page_size, int kv_heads, int dims);
};

/// One request's tokens in a step.
struct Chunk {
  int first, length, start;      // `length` rows from row `first` on, at the positions from `start` on
  std::vector<int> block_table;  // position p is in page block_table[p / page_size], at p % page_size
};

/// The pages, as one step's chunks use them.
class PagedKVCache : public KVCache {
 public:
  /// Throws if a block table is too short or names a page that does not exist.
  PagedKVCache(int heads, Pages& pages, std::vector<Chunk> chunks);
  void append(int number, int row, const float* keys, const float* values) override;
  void attend(int number, const float* queries, int64_t stride, float* attended) override;

 private:
  int heads;
  Pages& pages;
  std::vector<Chunk> chunks;
  std::vector<int64_t> slots;  // of each row: the offset of its first head's key
  std::vector<int> decodes;    // indices of the chunks with a single row
  std::vector<int> prefills;   // and of all others
};

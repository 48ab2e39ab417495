// --- given
// Week 3's memory: pages, of which each text has some, and a step that reads tokens of several texts.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "layer.h"

/// Keys and values in pages, of each layer pages x kv_heads x page x head_dim.
struct Pages {
  int layers, pages, page, kv_heads, dims;
  std::vector<std::unique_ptr<float[]>> keys, values;

  Pages(int layers, int pages, int page, int kv_heads, int dims);
};

/// The tokens of one text that a step reads.
struct Part {
  int first, length, start;  // `length` rows from `first` on, which stand at the positions from `start` on
  std::vector<int> table;    // of pages: position p is in table[p / page], at p % page
};

/// The pages, while a step reads its parts.
class InPages : public Memory {
 public:
  /// Refuses a table that ends too soon or names a page that is not there.
  InPages(int heads, Pages& pages, std::vector<Part> parts);
  void keep(int number, int row, const float* keys, const float* values) override;
  void attend(int number, const float* queries, int64_t stride, float* attended) override;

 private:
  int heads;
  Pages& pages;
  std::vector<Part> parts;
  std::vector<int64_t> place;  // of each row: where its first key begins
  std::vector<int> alone;    // the parts of a single row, and
  std::vector<int> several;  // all others
};

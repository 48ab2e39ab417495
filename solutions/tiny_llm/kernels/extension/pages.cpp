// --- given
#include "pages.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "../kernels.h"
#include "../pool.h"

Pages::Pages(int layers, int pages, int page_size, int kv_heads, int dims)
    : layers(layers), pages(pages), page_size(page_size), kv_heads(kv_heads), dims(dims) {
  const size_t numbers = size_t(pages) * kv_heads * page_size * dims;
  for (int i = 0; i < layers; ++i) {  // uninitialized: untouched pages take no physical memory
    keys.emplace_back(new float[numbers]);
    values.emplace_back(new float[numbers]);
  }
}

PagedKVCache::PagedKVCache(int heads, Pages& pages, std::vector<Chunk> given)
    : heads(heads), pages(pages), chunks(std::move(given)) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    const int end = chunk.start + chunk.length, needed = (end + pages.page_size - 1) / pages.page_size;
    if (int(chunk.block_table.size()) < needed)
      throw std::invalid_argument(std::to_string(end) + " tokens need " + std::to_string(needed) + " pages of " +
                                  std::to_string(pages.page_size) + ", but the table has " +
                                  std::to_string(chunk.block_table.size()));
    for (int number : chunk.block_table)
      if (number < 0 || number >= pages.pages)
        throw std::out_of_range("there is no page " + std::to_string(number) + " among " + std::to_string(pages.pages));
    for (int64_t p = chunk.start; p < end; ++p)
      slots.push_back((int64_t(chunk.block_table[p / pages.page_size]) * pages.kv_heads * pages.page_size +
                       p % pages.page_size) *
                      pages.dims);
    (chunk.length == 1 ? decodes : prefills).push_back(int(i));
  }
}

void PagedKVCache::append(int number, int row, const float* keys, const float* values) {
  const int64_t dims = pages.dims, head = pages.page_size * dims;
  for (int64_t h = 0; h < pages.kv_heads; ++h) {
    std::copy_n(keys + h * dims, dims, &pages.keys[number][slots[row] + h * head]);
    std::copy_n(values + h * dims, dims, &pages.values[number][slots[row] + h * head]);
  }
}

/// Chunks of one token run in parallel; each longer chunk uses all cores by itself.
void PagedKVCache::attend(int number, const float* queries, int64_t stride, float* attended) {
  const int dims = pages.dims, kv_heads = pages.kv_heads, group = heads / kv_heads;
  const int64_t q_size = heads * dims;
  const float *keys = pages.keys[number].get(), *values = pages.values[number].get();
  const float scale = 1 / std::sqrt(float(dims));
  pool().run(int(decodes.size()) * kv_heads, 1, [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const Chunk& chunk = chunks[decodes[i / kv_heads]];
      const int h = i % kv_heads;
      paged_attend(queries + chunk.first * stride + h * group * dims, keys, values, chunk.block_table.data(),
                   attended + chunk.first * q_size + h * group * dims, group, kv_heads, h, dims, pages.page_size,
                   chunk.start + 1, scale);
    }
  });
  std::vector<float> mine;
  for (int i : prefills) {
    const Chunk& chunk = chunks[i];
    mine.resize(chunk.length * q_size);
    for (int64_t t = 0; t < chunk.length; ++t)
      std::copy_n(queries + (chunk.first + t) * stride, q_size, &mine[t * q_size]);
    paged_flash(mine.data(), keys, values, chunk.block_table.data(), attended + chunk.first * q_size, heads, kv_heads,
                dims, pages.page_size, chunk.length, chunk.start + chunk.length, scale);
  }
}

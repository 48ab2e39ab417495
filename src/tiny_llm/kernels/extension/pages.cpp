// --- given
#include "pages.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "../kernels.h"
#include "../pool.h"

Pages::Pages(int layers, int pages, int page, int kv_heads, int dims)
    : layers(layers), pages(pages), page(page), kv_heads(kv_heads), dims(dims) {
  const size_t numbers = size_t(pages) * kv_heads * page * dims;
  for (int i = 0; i < layers; ++i) {  // not set to 0: what nobody writes takes no memory
    keys.emplace_back(new float[numbers]);
    values.emplace_back(new float[numbers]);
  }
}

InPages::InPages(int heads, Pages& pages, std::vector<Part> given)
    : heads(heads), pages(pages), parts(std::move(given)) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const int end = part.start + part.length, needed = (end + pages.page - 1) / pages.page;
    if (int(part.table.size()) < needed)
      throw std::invalid_argument(std::to_string(end) + " tokens need " + std::to_string(needed) + " pages of " +
                                  std::to_string(pages.page) + ", but the table has " +
                                  std::to_string(part.table.size()));
    for (int number : part.table)
      if (number < 0 || number >= pages.pages)
        throw std::out_of_range("there is no page " + std::to_string(number) + " among " + std::to_string(pages.pages));
    for (int64_t p = part.start; p < end; ++p)
      place.push_back((int64_t(part.table[p / pages.page]) * pages.kv_heads * pages.page + p % pages.page) *
                      pages.dims);
    (part.length == 1 ? alone : several).push_back(int(i));
  }
}

void InPages::keep(int number, int row, const float* keys, const float* values) {
  const int64_t dims = pages.dims, head = pages.page * dims;
  for (int64_t h = 0; h < pages.kv_heads; ++h) {
    std::copy_n(keys + h * dims, dims, &pages.keys[number][place[row] + h * head]);
    std::copy_n(values + h * dims, dims, &pages.values[number][place[row] + h * head]);
  }
}

/// Who brings one token shares the cores with all others who do; who brings several has them to himself.
void InPages::attend(int number, const float* queries, int64_t stride, float* attended) {
  const int dims = pages.dims, kv_heads = pages.kv_heads, group = heads / kv_heads;
  const int64_t q_size = heads * dims;
  const float *keys = pages.keys[number].get(), *values = pages.values[number].get();
  const float scale = 1 / std::sqrt(float(dims));
  pool().run(int(alone.size()) * kv_heads, 1, [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const Part& part = parts[alone[i / kv_heads]];
      const int h = i % kv_heads;
      paged_attend(queries + part.first * stride + h * group * dims, keys, values, part.table.data(),
                   attended + part.first * q_size + h * group * dims, group, kv_heads, h, dims, pages.page,
                   part.start + 1, scale);
    }
  });
  std::vector<float> mine;
  for (int i : several) {
    const Part& part = parts[i];
    mine.resize(part.length * q_size);
    for (int64_t t = 0; t < part.length; ++t)
      std::copy_n(queries + (part.first + t) * stride, q_size, &mine[t * q_size]);
    paged_flash(mine.data(), keys, values, part.table.data(), attended + part.first * q_size, heads, kv_heads,
                dims, pages.page, part.length, part.start + part.length, scale);
  }
}

// --- given
#include <algorithm>
#include <vector>

#include "../kernels.h"
extern "C" void paged_attend(const float* queries, const float* keys, const float* values, const int* table, float* attended,
                  int group, int kv_heads, int kv_head, int dims, int page, int tokens, float scale) {
  std::vector<float> k(int64_t(tokens) * dims), v(k.size());
  for (int64_t p = 0; p < tokens; p += page) {
    const int64_t n = std::min<int64_t>(page, tokens - p) * dims, at = (int64_t(table[p / page]) * kv_heads + kv_head) * page * dims;
    std::copy_n(keys + at, n, &k[p * dims]);
    std::copy_n(values + at, n, &v[p * dims]);
  }
  attend(queries, k.data(), v.data(), attended, group, dims, tokens, scale);
}
extern "C" void paged_flash(const float* queries, const float* keys, const float* values, const int* table, float* attended,
                 int heads, int kv_heads, int dims, int page, int length, int tokens, float scale) {
  std::vector<std::vector<float>> k(kv_heads), v(kv_heads);
  std::vector<const float*> ks, vs;
  for (int h = 0; h < kv_heads; ++h) {
    k[h].resize(int64_t(tokens) * dims), v[h].resize(int64_t(tokens) * dims);
    for (int64_t p = 0; p < tokens; p += page) {
      const int64_t n = std::min<int64_t>(page, tokens - p) * dims, at = (int64_t(table[p / page]) * kv_heads + h) * page * dims;
      std::copy_n(keys + at, n, &k[h][p * dims]);
      std::copy_n(values + at, n, &v[h][p * dims]);
    }
    ks.push_back(k[h].data()), vs.push_back(v[h].data());
  }
  flash_attention(queries, ks.data(), vs.data(), attended, heads, kv_heads, dims, length, tokens, scale);
}

// --- given
// Causal attention within documents, for training: forward and backward, a block of queries at a time.
//
// Queries and their results are batch x length x heads x dims, keys and values batch x length x kv_heads x dims, as the
// projections return them. A document is a run of equal numbers in `documents`, batch x length. The only trace of the
// attention weights that the forward pass keeps is the log of each row's sum of exponentials, batch x heads x length.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "lanes.h"
#include "pool.h"
#include "softmax.h"
#include "training.h"

constexpr int QUERIES = 32;  // per block: its scores stay in L1 or L2

/// A matrix whose entry (i, j) is at numbers[i * row + j * column].
struct View {
  const float* numbers;
  int64_t row, column;
};

/// Adds a block of a @ b to c: ROWS x (COLUMNS * LANES) sums in registers.
template <int ROWS, int COLUMNS>
static inline void tile(View a, const float* b, int64_t b_row, float* c, int64_t c_row, int depth) {
  Floats sums[ROWS][COLUMNS];
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < COLUMNS; ++j) sums[r][j] = load(c + r * c_row + j * LANES);
  for (int k = 0; k < depth; ++k) {
    Floats right[COLUMNS];
    for (int j = 0; j < COLUMNS; ++j) right[j] = load(b + k * b_row + j * LANES);
    for (int r = 0; r < ROWS; ++r) {
      const Floats left = all(a.numbers[r * a.row + k * a.column]);
      for (int j = 0; j < COLUMNS; ++j) sums[r][j] += left * right[j];
    }
  }
  for (int r = 0; r < ROWS; ++r)
    for (int j = 0; j < COLUMNS; ++j) store(c + r * c_row + j * LANES, sums[r][j]);
}

/// Adds a @ b to c: rows x columns, with `depth` terms in each sum.
static void add_product(View a, const float* b, int64_t b_row, float* c, int64_t c_row, int rows, int columns,
                        int depth) {
  constexpr int HIGH = 6;
  int j = 0;
  auto strip = [&](auto width) {
    constexpr int COLUMNS = decltype(width)::value;
    for (; j + COLUMNS * LANES <= columns; j += COLUMNS * LANES) {
      int r = 0;
      auto left = [&] { return View{a.numbers + r * a.row, a.row, a.column}; };
      for (; r + HIGH <= rows; r += HIGH) tile<HIGH, COLUMNS>(left(), b + j, b_row, c + r * c_row + j, c_row, depth);
      for (; r < rows; ++r) tile<1, COLUMNS>(left(), b + j, b_row, c + r * c_row + j, c_row, depth);
    }
  };
  strip(std::integral_constant<int, 2>{});
  strip(std::integral_constant<int, 1>{});
  for (int r = 0; r < rows; ++r)
    for (int k = 0; k < depth; ++k)
      for (int rest = j; rest < columns; ++rest)
        c[r * c_row + rest] += a.numbers[r * a.row + k * a.column] * b[k * b_row + rest];
}

/// The keys or values of one head of one sequence, and their transpose, padded to whole registers.
struct Head {
  const float* rows;  // length x dims
  int64_t row;
  std::vector<float> columns;  // dims x width
  int width;

  Head(const float* rows, int64_t row, int length, int dims)
      : rows(rows), row(row), width((length + LANES - 1) / LANES * LANES) {
    columns.resize(int64_t(dims) * width);
    for (int t = 0; t < length; ++t)
      for (int d = 0; d < dims; ++d) columns[int64_t(d) * width + t] = rows[t * row + d];
  }
};

/// A block of queries first .. last - 1 of one head, and the keys from .. last - 1, of which each sees a part.
struct Block {
  int first, last, from, width;  // width: of its scores, in whole registers

  Block(int first, int length, const std::vector<int>& starts)
      : first(first), last(std::min(length, first + QUERIES)), from(starts[first] / LANES * LANES) {
    width = (last - from + LANES - 1) / LANES * LANES;
  }
  int rows() const { return last - first; }
  int keys() const { return last - from; }
};

/// The index at which each token's document starts.
static std::vector<int> starts_of(const int* documents, int length) {
  std::vector<int> starts(length);
  for (int t = 1; t < length; ++t) starts[t] = documents[t] == documents[t - 1] ? starts[t - 1] : t;
  return starts;
}

/// Computes rows @ other's columns for a block.
static void compare(const Block& block, const float* rows, int64_t row, const Head& other, int dims, float* scores) {
  std::fill(scores, scores + block.rows() * block.width, 0.0f);
  add_product({rows + block.first * row, row, 1}, other.columns.data() + block.from, other.width, scores, block.width,
              block.rows(), block.width, dims);
}

/// Replaces a block's products by attention weights, 0 for hidden keys. known: the log-sums, or else they are written.
static void weigh_block(const Block& block, const std::vector<int>& starts, float scale, float* scores,
                        const float* known, float* log_sums) {
  for (int t = block.first; t < block.last; ++t) {
    float* row = scores + (t - block.first) * block.width;
    const int begin = starts[t] - block.from, count = t + 1 - starts[t];
    std::fill(row, row + begin, 0.0f);
    std::fill(row + begin + count, row + block.width, 0.0f);
    row += begin;
    for (int i = 0; i < count; ++i) row[i] *= scale;
    if (known) {
      weigh(row, count, known[t]);
    } else {
      const float highest = highest_of(row, count), total = weigh(row, count, highest);
      for (int i = 0; i < count; ++i) row[i] /= total;
      log_sums[t] = highest + std::log(total);
    }
  }
}

extern "C" void packed_attention(const float* queries, const float* keys, const float* values, const int* documents,
                                 float* y, float* log_sums, int batch, int length, int heads, int kv_heads, int dims,
                                 float scale) {
  const int64_t row = int64_t(heads) * dims, kv_row = int64_t(kv_heads) * dims;
  const int group = heads / kv_heads;
  pool().run(batch * kv_heads, 1, [&](int begin, int end) {
    std::vector<float> scores(int64_t(QUERIES) * (length + 2 * LANES));
    for (int i = begin; i < end; ++i) {
      const int b = i / kv_heads, shared = i % kv_heads;
      const std::vector<int> starts = starts_of(documents + int64_t(b) * length, length);
      const int64_t at = b * length * kv_row + shared * dims;
      const Head key(keys + at, kv_row, length, dims);
      for (int head = shared * group; head < (shared + 1) * group; ++head) {
        const int64_t mine = b * length * row + int64_t(head) * dims;
        for (int first = 0; first < length; first += QUERIES) {
          const Block block(first, length, starts);
          compare(block, queries + mine, row, key, dims, scores.data());
          weigh_block(block, starts, scale, scores.data(), nullptr, log_sums + (int64_t(b) * heads + head) * length);
          for (int t = first; t < block.last; ++t) std::fill_n(y + mine + t * row, dims, 0.0f);
          add_product({scores.data(), block.width, 1}, values + at + block.from * kv_row, kv_row, y + mine + first * row,
                      row, block.rows(), dims, block.keys());
        }
      }
    }
  });
}

extern "C" void packed_attention_vjp(const float* queries, const float* keys, const float* values,
                                     const int* documents, const float* y, const float* log_sums, const float* dy,
                                     float* dqueries, float* dkeys, float* dvalues, int batch, int length, int heads,
                                     int kv_heads, int dims, float scale) {
  const int64_t row = int64_t(heads) * dims, kv_row = int64_t(kv_heads) * dims;
  const int group = heads / kv_heads;
  pool().run(batch * kv_heads, 1, [&](int begin, int end) {  // one thread adds to the gradients of a key-value head
    std::vector<float> weights(int64_t(QUERIES) * (length + 2 * LANES)), dscores(weights.size());
    for (int i = begin; i < end; ++i) {
      const int b = i / kv_heads, shared = i % kv_heads;
      const std::vector<int> starts = starts_of(documents + int64_t(b) * length, length);
      const int64_t at = b * length * kv_row + shared * dims;
      const Head key(keys + at, kv_row, length, dims), value(values + at, kv_row, length, dims);
      for (int t = 0; t < length; ++t)
        for (float* sum : {dkeys, dvalues}) std::fill_n(sum + at + t * kv_row, dims, 0.0f);
      for (int head = shared * group; head < (shared + 1) * group; ++head) {
        const int64_t mine = b * length * row + int64_t(head) * dims;
        for (int first = 0; first < length; first += QUERIES) {
          const Block block(first, length, starts);
          compare(block, queries + mine, row, key, dims, weights.data());
          weigh_block(block, starts, scale, weights.data(), log_sums + (int64_t(b) * heads + head) * length, nullptr);
          compare(block, dy + mine, row, value, dims, dscores.data());  // the gradients of the weights
          for (int t = first; t < block.last; ++t) {
            const float mean = dot(dy + mine + t * row, y + mine + t * row, dims);  // weighted, as y is of the values
            float *d = &dscores[(t - first) * block.width], *weight = &weights[(t - first) * block.width];
            for (int k = 0; k < block.width; ++k) d[k] = weight[k] * (d[k] - mean) * scale;
            std::fill_n(dqueries + mine + t * row, dims, 0.0f);
          }
          const int64_t seen = at + block.from * kv_row;
          add_product({dscores.data(), block.width, 1}, keys + seen, kv_row, dqueries + mine + first * row, row,
                      block.rows(), dims, block.keys());
          add_product({dscores.data(), 1, block.width}, queries + mine + first * row, row, dkeys + seen, kv_row,
                      block.keys(), dims, block.rows());
          add_product({weights.data(), 1, block.width}, dy + mine + first * row, row, dvalues + seen, kv_row,
                      block.keys(), dims, block.rows());
        }
      }
    }
  });
}

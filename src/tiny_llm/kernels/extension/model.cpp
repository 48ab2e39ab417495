// --- given
#include "model.h"

#include <stdexcept>
#include <string>

#include "../pool.h"
#include "../quantized.h"

/// One row of a matrix as floats.
static void unpack_row(const Matrix& w, int64_t row, float* y) {
  for (int i = 0; i < w.inputs; ++i) {
    const int64_t at = row * w.inputs + i, group = at / w.group_size;
    const uint32_t q = w.packed[at / PER_WORD] >> 4 * (at % PER_WORD) & 15;
    y[i] = number_at(w.scales, group, w.scale_type) * float(q) + number_at(w.biases, group, w.scale_type);
  }
}

void run_model(const Model& model, const int32_t* tokens, float* logits, bool every, std::vector<Cache>& caches,
               const Reading& reading) {
  const int rows = reading.batch * reading.length, step = every ? 1 : reading.length, scored = rows / step;
  const int64_t hidden = model.table.inputs;
  OwnLines stream(rows * hidden), normed(scored * hidden);
  for (int64_t r = 0; r < rows; ++r) {
    if (tokens[r] < 0 || tokens[r] >= model.table.outputs)
      throw std::out_of_range("the vocabulary has no token " + std::to_string(tokens[r]));
    unpack_row(model.table, tokens[r], &stream[r * hidden]);
  }
  caches.resize(model.layers.size());
  for (size_t i = 0; i < caches.size(); ++i) run_layer(model.layers[i], stream.data(), caches[i], reading);
  for (int64_t r = 0; r < scored; ++r)
    norm(&stream[((r + 1) * step - 1) * hidden], model.norm, model.eps, &normed[r * hidden], hidden);
  multiply(model.head, normed.data(), logits, scored, reading.int8);
}

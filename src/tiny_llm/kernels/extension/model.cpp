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

void run_model(const Model& model, const Step& step, KVCache& kv_cache, float* logits) {
  const int64_t rows = int64_t(step.tokens.size()), num_logits = int64_t(step.logit_rows.size());
  const int64_t hidden = model.table.inputs;
  OwnLines residual(rows * hidden), normed(num_logits * hidden);
  for (int64_t r = 0; r < rows; ++r) {
    if (step.tokens[r] < 0 || step.tokens[r] >= model.table.outputs)
      throw std::out_of_range("the vocabulary has no token " + std::to_string(step.tokens[r]));
    unpack_row(model.table, step.tokens[r], &residual[r * hidden]);
  }
  Scratch scratch(model.layers[0], rows);
  for (size_t i = 0; i < model.layers.size(); ++i)
    run_layer(model.layers[i], int(i), residual.data(), step, kv_cache, scratch);
  for (int64_t r = 0; r < num_logits; ++r)
    norm(&residual[step.logit_rows[r] * hidden], model.norm, model.eps, &normed[r * hidden], hidden);
  if (num_logits) multiply(model.head, normed.data(), logits, int(num_logits), step.options);
}

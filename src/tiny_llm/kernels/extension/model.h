// --- given
// Qwen3 from tokens to logits in one call: between two layers, too, nothing is done but what the numbers need.
#pragma once
#include <cstdint>
#include <vector>

#include "layer.h"

struct Model {
  std::vector<Layer> layers;
  Matrix table, head;  // vocabulary x hidden; with tied weights the same
  const float* norm;   // hidden
  float eps;
};

/// Reads tokens, batch x length, and scores every one of the vocabulary as the next one.
///
/// logits: batch x vocabulary, after the last token, or with `every` batch x length x vocabulary. caches: of each layer.
void run_model(const Model& model, const int32_t* tokens, float* logits, bool every, std::vector<Cache>& caches,
               const Reading& reading);

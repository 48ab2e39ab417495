// --- given
// Qwen3 from tokens to logits in one call.
#pragma once
#include <cstdint>
#include <vector>

#include "layer.h"

struct Model {
  std::vector<Layer> layers;
  Matrix table, head;  // vocabulary x hidden; the same if the embedding is tied
  const float* norm;   // hidden
  float eps;
  int positions;  // the number of positions that RoPE has angles for
};

/// Runs the model over a step's tokens and appends them to the cache. logits: step.logit_rows x vocabulary.
void run_model(const Model& model, const Step& step, KVCache& kv_cache, float* logits);

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
  int positions;  // as many as RoPE has angles for
};

/// Reads a step's tokens, whose memory it is, and scores every token of the vocabulary as the next one.
///
/// logits: scored x vocabulary.
void run_model(const Model& model, const Step& step, Memory& memory, float* logits);

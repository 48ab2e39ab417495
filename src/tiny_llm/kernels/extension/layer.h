// --- given
// One layer of Qwen3 in one call: between the products there is no overhead beyond the arithmetic itself.
#pragma once
#include <cstdint>
#include <vector>

#include "../pool.h"

/// A quantized matrix, as `quantized.h` lays it out.
struct Matrix {
  const uint32_t* packed;
  const void* scales;
  const void* biases;
  int outputs, inputs, group_size, scale_type;
};

/// Which kernels a product may use.
struct MatmulOptions {
  bool int8 = false;         // x in 8 bits, each row rounded separately
  bool small_batch = false;  // up to 8 rows by `matvecs`; week 2's engine, which serves one request, does without
};

/// y = x W^T for some rows of x: one row by `matvec_threads`, more by `matmul`, unless the options allow another
/// kernel.
void multiply(const Matrix& w, const float* x, float* y, int rows, MatmulOptions options);

/// y = x / sqrt(mean(x^2) + eps) * weight; y may be x.
void norm(const float* x, const float* weight, float eps, float* y, int n);

/// A layer's sizes and weights. All arrays are float32; those that the architecture lacks are null.
struct Layer {
  int hidden, heads, kv_heads, head_dim, width;
  float eps;
  // The rows of q, k and v are stacked, as all multiply the same x; so are those of gate and up.
  Matrix qkv, out, gate_up, down;
  const float *input_norm, *mlp_norm;  // hidden
  const float *q_norm, *k_norm;        // head_dim (Qwen3)
  const float* qkv_bias;               // (heads + 2 kv_heads) * head_dim (Qwen2.5)
  const float *cos, *sin;              // of RoPE: positions x head_dim / 2
};

/// The tokens of one step, each at its position in its own sequence.
struct Step {
  std::vector<int> tokens, positions;
  std::vector<int> logit_rows;  // indices of the tokens whose logits are computed
  MatmulOptions options;
};

/// The keys and values of a step's sequences; a layer does not depend on how they are stored.
class KVCache {
 public:
  virtual ~KVCache() = default;

  /// Stores the keys, and values, kv_heads x head_dim, of the step's token `row` in layer `number`. Called in any order
  /// and from several threads.
  virtual void append(int number, int row, const float* keys, const float* values) = 0;

  /// Computes attention in layer `number`: each token of the step attends to its own sequence, up to itself. Queries
  /// are heads x head_dim per token, `stride` floats apart; attended is tokens x heads x head_dim.
  virtual void attend(int number, const float* queries, int64_t stride, float* attended) = 0;
};

/// Buffers for a layer's intermediate results, for this many tokens; reused by every layer.
struct Scratch {
  OwnLines normed, qkv, attended, product, gate_up, gated;

  Scratch(const Layer& layer, int64_t tokens);
};

/// Runs layer `number`: adds its output to the residual stream, tokens x hidden, and appends keys and values to the
/// cache.
void run_layer(const Layer& layer, int number, float* residual, const Step& step, KVCache& kv_cache, Scratch& scratch);

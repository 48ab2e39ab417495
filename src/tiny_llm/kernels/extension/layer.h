// --- given
// One layer of Qwen3 in one call: what stands between the products costs nothing but the numbers it touches.
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

/// How rows of x may be multiplied.
struct Ways {
  bool int8 = false;  // one row in 8 bits; all of them, each by itself, where few are multiplied
  bool few = false;   // a few rows by `matvecs`: week 2's engine, which reads one text, does without
};

/// y = x W^T for some rows of x. One row goes to the matvec, several to the matmul, a few to neither if they may.
void multiply(const Matrix& w, const float* x, float* y, int rows, Ways ways);

/// y = x / sqrt(mean(x^2) + eps) * weight; y may be x.
void norm(const float* x, const float* weight, float eps, float* y, int n);

/// What a layer is made of. All arrays are float32; those that the architecture does not have are null.
struct Layer {
  int hidden, heads, kv_heads, head_dim, width;
  float eps;
  // The rows of q, k and v stand below each other, as all read the same x; so do those of gate and up.
  Matrix qkv, out, gate_up, down;
  const float *input_norm, *mlp_norm;  // hidden
  const float *q_norm, *k_norm;        // head_dim (Qwen3)
  const float* qkv_bias;               // (heads + 2 kv_heads) * head_dim (Qwen2.5)
  const float *cos, *sin;              // of RoPE: positions x head_dim / 2
};

/// The tokens of one step, each at a position of its own text.
struct Step {
  std::vector<int> tokens, positions;
  std::vector<int> scored;  // places of those after which every token of the vocabulary is scored
  Ways ways;
};

/// Where the keys and values of a step's texts are: a layer neither knows nor cares.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Keeps what the step's token `row` has in layer `number`: its keys, and values, kv_heads x head_dim. Rows come in
  /// any order, and from several threads.
  virtual void keep(int number, int row, const float* keys, const float* values) = 0;

  /// Lets each token of the step see the keys and values of its own text, up to itself. The queries, heads x head_dim,
  /// begin `stride` numbers apart; attended is tokens x heads x head_dim.
  virtual void attend(int number, const float* queries, int64_t stride, float* attended) = 0;
};

/// What stands between the products of a layer, for so many tokens. The next layer writes over it.
struct Room {
  OwnLines normed, qkv, attended, product, gate_up, gated;

  Room(const Layer& layer, int64_t tokens);
};

/// Adds to the stream, tokens x hidden, what layer `number` makes of it, and to the memory the new keys and values.
void run_layer(const Layer& layer, int number, float* stream, const Step& step, Memory& memory, Room& room);

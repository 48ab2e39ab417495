// --- given
// One layer of Qwen3 in one call: what stands between the products costs nothing but the numbers it touches.
#pragma once
#include <cstdint>
#include <vector>

/// A quantized matrix, as `quantized.h` lays it out.
struct Matrix {
  const uint32_t* packed;
  const void* scales;
  const void* biases;
  int outputs, inputs, group_size, scale_type;
};

/// y = x W^T for some rows of x. One row goes to the matvec, in 8 bits if that is asked for, several to the matmul.
void multiply(const Matrix& w, const float* x, float* y, int rows, bool int8);

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

/// One layer's keys and values: for each row and each of its kv_heads, tokens x head_dim.
struct Cache {
  std::vector<std::vector<float>> keys, values;  // a vector that grows by a token takes room for twice as many
};

/// Which tokens are read, and how.
struct Reading {
  int batch, length, offset;  // `length` new tokens of each of `batch` rows, behind `offset` that the caches hold
  bool int8;                  // whether one row of x may be multiplied in 8 bits
  bool flash;                 // whether attention goes block by block
};

/// Adds to the stream, batch x length x hidden, what the layer makes of it, and to the cache the new keys and values.
void run_layer(const Layer& layer, float* stream, Cache& cache, const Reading& reading);

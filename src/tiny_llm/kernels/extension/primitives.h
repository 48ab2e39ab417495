// --- given
// The kernels as operations of MLX: lazy, part of its graph, on the CPU.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "mlx/array.h"
#include "mlx/primitives.h"

namespace mx = mlx::core;

/// x @ W.T, with x N.. x I, float32, and W O x I, quantized; `kernels/ops.py` checks the arguments.
mx::array quantized_matmul(const mx::array& x, const mx::array& packed, const mx::array& scales,
                           const mx::array& biases, int group_size, bool int8);

/// One layer for new tokens: x N x L x E, and the cache's keys and values, N x H_kv x room x D, of `offset` tokens.
///
/// weights: input_norm, mlp_norm, q_norm, k_norm, qkv_bias, cos, sin (an array without elements stands for none), then
/// packed, scales and biases of qkv, out, gate_up and down. Returns the stream, and keys and values with L more tokens:
/// in the memory of those that came in, if nobody else holds them.
std::vector<mx::array> layer(const mx::array& x, const mx::array& keys, const mx::array& values,
                             const std::vector<mx::array>& weights, int offset, int head_dim, float eps, int group_size,
                             bool int8);

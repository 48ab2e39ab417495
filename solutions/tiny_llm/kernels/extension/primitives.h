// --- given
// The kernels as operations of MLX: lazy, part of its graph, on the CPU.
#pragma once
#include <memory>
#include <vector>

#include "layer.h"
#include "mlx/array.h"
#include "mlx/primitives.h"

namespace mx = mlx::core;

/// x @ W.T, with x N.. x I, float32, and W O x I, quantized; `kernels/ops.py` checks the arguments.
mx::array quantized_matmul(const mx::array& x, const mx::array& packed, const mx::array& scales,
                           const mx::array& biases, int group_size, bool int8);

/// One layer for new tokens: the stream x, N x L x E, to the stream after it. The cache has `offset` tokens before.
///
/// weights: input_norm, mlp_norm, q_norm, k_norm, qkv_bias, cos, sin (an array without elements stands for none), then
/// packed, scales and biases of qkv, out, gate_up and down. before: what this layer gave for the tokens before, which
/// must be in the cache first; or anything.
mx::array layer(const mx::array& x, const std::vector<mx::array>& weights, std::shared_ptr<Cache> cache,
                const mx::array& before, int offset, int head_dim, float eps, int group_size, bool int8);

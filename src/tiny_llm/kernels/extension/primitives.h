// --- given
// The kernels as operations of MLX: lazy, part of its graph, on the CPU.
#pragma once
#include <memory>
#include <vector>

#include "mlx/array.h"
#include "mlx/primitives.h"
#include "caches.h"
#include "model.h"
#include "pages.h"

namespace mx = mlx::core;

/// x @ W.T, with x N.. x I, float32, and W O x I, quantized; `kernels/ops.py` checks the arguments.
mx::array quantized_matmul(const mx::array& x, const mx::array& packed, const mx::array& scales,
                           const mx::array& biases, int group_size, bool int8);

using Caches = std::vector<Cache>;

/// A model, and the arrays that it points into, which must have been computed.
struct HeldModel {
  std::vector<mx::array> arrays;
  Model model;

  /// given: norm, cos, sin, the matrices table and head; then of each layer input_norm, mlp_norm, q_norm, k_norm and
  /// qkv_bias (an array without elements stands for none), and the matrices qkv, out, gate_up and down. A matrix is
  /// packed, scales and biases.
  HeldModel(std::vector<mx::array> given, int head_dim, float eps, int group_size);
};

/// Tokens, N x L, to logits, N x 1 x V, or N x L x V if every position is to be scored. The caches have `offset` tokens
/// before. before: what came out for those, which must be in the caches first; or anything. int8: `Ways`. flash:
/// `Reading`.
mx::array fused_model(const mx::array& tokens, std::shared_ptr<HeldModel> held, std::shared_ptr<Caches> caches,
                      const mx::array& before, int offset, bool every, bool int8, bool flash);

/// Tokens of several texts, one text behind the other, to logits, R x V; they are computed when this returns.
///
/// Of each text: how many tokens, the position of the first one, after how many of the last ones a next token is asked
/// for, and its pages, which have what is before. R is the sum of `scored`.
mx::array ragged_model(HeldModel& held, Pages& pages, std::vector<int> tokens, const std::vector<int>& lengths,
                       const std::vector<int>& starts, const std::vector<int>& scored,
                       std::vector<std::vector<int>> tables, bool int8);

/// Attention alone, of one layer, for models that are not fused: as `Memory.keep` and `Memory.attend`.
///
/// query: T x H x D, key and value T x H_kv x D, of these texts, one behind the other. The result is as query.
mx::array attend_in_pages(Pages& pages, int number, mx::array query, mx::array key, mx::array value,
                          const std::vector<int>& lengths, const std::vector<int>& starts,
                          std::vector<std::vector<int>> tables);

// --- given
// The kernels as MLX operations: lazy, part of its graph, on the CPU.
#pragma once
#include <memory>
#include <vector>

#include "mlx/array.h"
#include "mlx/primitives.h"
#include "caches.h"
#include "model.h"
#include "pages.h"

namespace mx = mlx::core;

/// Returns x @ W.T, with x N.. x I, float32, and W O x I, quantized; `kernels/ops.py` checks the arguments.
mx::array quantized_matmul(const mx::array& x, const mx::array& packed, const mx::array& scales,
                           const mx::array& biases, int group_size, bool int8);

using Caches = std::vector<Cache>;

/// A model together with the arrays that it points into, which must have been evaluated.
struct OwnedModel {
  std::vector<mx::array> arrays;
  Model model;

  /// given: norm, cos, sin, the matrices table and head; then for each layer input_norm, mlp_norm, q_norm, k_norm and
  /// qkv_bias (an empty array for none), and the matrices qkv, out, gate_up and down. A matrix is three arrays: packed,
  /// scales and biases.
  OwnedModel(std::vector<mx::array> given, int head_dim, float eps, int group_size);
};

/// Returns the logits of tokens, N x L: N x 1 x V, or N x L x V for all positions. The caches hold `offset` earlier
/// tokens. previous: the logits of the previous call, an input that makes MLX run the calls in order; any array at the
/// first call. int8: see `MatmulOptions`. flash: see `Batch`.
mx::array fused_model(const mx::array& tokens, std::shared_ptr<OwnedModel> owned, std::shared_ptr<Caches> caches,
                      const mx::array& previous, int offset, bool all_positions, bool int8, bool flash);

/// Computes the logits, R x V, of the concatenated tokens of several requests; they are evaluated on return.
///
/// For each request: its number of tokens, the position of the first one, the number of last tokens whose logits are
/// computed, and its block table, whose pages hold its earlier tokens. R is the sum of `num_logits`.
mx::array ragged_model(OwnedModel& owned, Pages& pages, std::vector<int> tokens, const std::vector<int>& lengths,
                       const std::vector<int>& starts, const std::vector<int>& num_logits,
                       std::vector<std::vector<int>> block_tables, bool int8);

/// Appends keys and values to the pages and computes the attention of one layer, for models that are not fused.
///
/// query: T x H x D, key and value: T x H_kv x D, the concatenated tokens of these requests. Returns T x H x D.
mx::array attend_in_pages(Pages& pages, int number, mx::array query, mx::array key, mx::array value,
                          const std::vector<int>& lengths, const std::vector<int>& starts,
                          std::vector<std::vector<int>> block_tables);

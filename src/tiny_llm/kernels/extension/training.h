// --- given
// The kernels of training as MLX operations. Arrays are float32, targets and documents int32; nothing is checked.
#pragma once
#include <vector>

#include "mlx/array.h"

namespace training {

namespace mx = mlx::core;
using Arrays = std::vector<mx::array>;

/// The losses, N.., and the gradients of the logits, N.. x V, for targets N.. and a scale of one number.
Arrays cross_entropy(const mx::array& logits, const mx::array& targets, const mx::array& scale, int ignored);

/// y, N.. x E.
mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps);
/// dx, N.. x E, and dweight, E.
Arrays rms_norm_vjp(const mx::array& x, const mx::array& weight, const mx::array& dy, float eps);

/// y, in gate's shape.
mx::array swiglu(const mx::array& gate, const mx::array& up);
/// dgate and dup, in gate's shape.
Arrays swiglu_vjp(const mx::array& gate, const mx::array& up, const mx::array& dy);

/// y, N x L x H x D, and the log-sums, N x H x L, for queries N x L x H x D, keys and values N x L x H_kv x D, and
/// documents N x L.
Arrays packed_attention(const mx::array& queries, const mx::array& keys, const mx::array& values,
                        const mx::array& documents);
/// The gradients of queries, keys and values.
Arrays packed_attention_vjp(const mx::array& queries, const mx::array& keys, const mx::array& values,
                            const mx::array& documents, const mx::array& y, const mx::array& log_sums,
                            const mx::array& dy);

}  // namespace training

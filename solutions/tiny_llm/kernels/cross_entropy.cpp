// Cross-entropy for training: the loss of each token and the gradient of its logits, in one pass over the rows.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "lanes.h"
#include "pool.h"
#include "softmax.h"

/// Computes, for each row of logits z with target t, losses = -ln p_t and gradients = scale * (p - one_hot(t)), with
/// p = softmax(z). If t is `ignored`, the loss and the row's gradients are 0, whatever the logits are, even NaN.
///
/// logits, gradients: rows x vocab. targets: rows, each from 0 to vocab - 1 or `ignored`. losses: rows. Logits of any
/// size give finite results. A row is a chunk of the pool's loop.
extern "C" void cross_entropy(const float* logits, const int* targets, float* losses, float* gradients, int rows,
                              int vocab, int ignored, float scale) {
  // --- your code: cross_entropy
  pool().run(rows, 1, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      const float* z = logits + int64_t(row) * vocab;
      float* gradient = gradients + int64_t(row) * vocab;
      const int target = targets[row];
      if (target == ignored) {
        losses[row] = 0;
        std::fill(gradient, gradient + vocab, 0.0f);
        continue;
      }
      std::copy(z, z + vocab, gradient);
      const float highest = highest_of(z, vocab);
      const float total = weigh(gradient, vocab, highest);  // gradient is now exp(z - highest)
      losses[row] = std::log(total) + highest - z[target];
      const float share = scale / total;
      for (int i = 0; i < vocab; ++i) gradient[i] *= share;
      gradient[target] -= scale;
    }
  });
  // --- end
}

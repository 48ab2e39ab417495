// --- given
// What the operations of this extension have in common.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

#include "mlx/array.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"
#include "mlx/utils.h"

namespace mx = mlx::core;

inline std::vector<mx::array> weak(const std::vector<mx::array>& arrays) {
  std::vector<mx::array> copies;
  for (const mx::array& a : arrays) copies.push_back(mx::array::unsafe_weak_copy(a));
  return copies;
}

/// The base of all operations: they run on the CPU, whatever MLX's default device is.
class OnCpu : public mx::Primitive {
 public:
  OnCpu() : mx::Primitive(mx::default_stream(mx::Device::cpu)) {}

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("the kernels in C++ run on the CPU only");
  }

 protected:
  /// Queues `work` on MLX's thread for this stream; the arrays stay alive until it has run. An exception in that thread
  /// would be uncaught, so it is printed here, once, and the results are NaN.
  template <class Work>
  void dispatch(const std::vector<mx::array>& results, Work work) {
    auto run = [work = std::move(work), results = weak(results)]() mutable {
      try {
        work();
      } catch (const std::exception& error) {
        static std::atomic<bool> said{false};
        if (!said.exchange(true)) std::fprintf(stderr, "A kernel threw an exception: %s\n", error.what());
        for (mx::array& y : results) std::fill_n(y.data<float>(), y.size(), std::nanf(""));
      }
    };
    mx::cpu::get_command_encoder(stream()).dispatch(std::move(run));
  }
};

inline mx::array row_major(const mx::array& a) { return mx::contiguous(a, false, mx::Device::cpu); }

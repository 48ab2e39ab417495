// --- given
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "../pool.h"
#include "primitives.h"

namespace nb = nanobind;
using SharedCache = std::shared_ptr<Cache>;
using namespace nb::literals;

NB_MODULE(_kernels, module) {
  nb::module_::import_("mlx.core");  // it knows what an array is
  // A capsule and no class: two packages of the course may be loaded side by side, and a class can be known only once.
  module.def("new_cache", [] {
    auto end = [](void* cache) noexcept { delete static_cast<SharedCache*>(cache); };
    return nb::capsule(new SharedCache(new Cache), end);
  });
  module.def("quantized_matmul", &quantized_matmul, "x"_a, "packed"_a, "scales"_a, "biases"_a, "group_size"_a,
             "int8"_a);
  module.def(
      "layer",
      [](const mx::array& x, const std::vector<mx::array>& weights, nb::capsule cache, const mx::array& before,
         int offset, int head_dim, float eps, int group_size, bool int8) {
        return layer(x, weights, *static_cast<SharedCache*>(cache.data()), before, offset, head_dim, eps, group_size,
                     int8);
      },
      "x"_a, "weights"_a, "cache"_a, "before"_a, "offset"_a, "head_dim"_a, "eps"_a,
             "group_size"_a, "int8"_a);
  module.def("set_threads", [](int threads) { pool(threads); }, "threads"_a);
}

// --- given
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "../pool.h"
#include "primitives.h"

namespace nb = nanobind;
using namespace nb::literals;

/// Something of ours for Python to keep.
///
/// A capsule and no class: two packages of the course may be loaded side by side, and a class can be known only once.
template <class Thing, class... Arguments>
nb::capsule keep(Arguments&&... arguments) {
  using Shared = std::shared_ptr<Thing>;
  auto end = [](void* kept) noexcept { delete static_cast<Shared*>(kept); };
  return nb::capsule(new Shared(std::make_shared<Thing>(std::forward<Arguments>(arguments)...)), end);
}

template <class Thing>
std::shared_ptr<Thing> kept(const nb::capsule& capsule) {
  return *static_cast<std::shared_ptr<Thing>*>(capsule.data());
}

NB_MODULE(_kernels, module) {
  nb::module_::import_("mlx.core");  // it knows what an array is
  module.def("quantized_matmul", &quantized_matmul, "x"_a, "packed"_a, "scales"_a, "biases"_a, "group_size"_a,
             "int8"_a);
  module.def("new_caches", [] { return keep<Caches>(); });
  module.def("new_model", &keep<HeldModel, std::vector<mx::array>, int, float, int>, "arrays"_a, "head_dim"_a, "eps"_a,
             "group_size"_a);
  module.def(
      "fused_model",
      [](const mx::array& tokens, nb::capsule model, nb::capsule caches, const mx::array& before, int offset,
         bool every, bool int8, bool flash) {
        return fused_model(tokens, kept<HeldModel>(model), kept<Caches>(caches), before, offset, every, int8, flash);
      },
      "tokens"_a, "model"_a, "caches"_a, "before"_a, "offset"_a, "every"_a, "int8"_a, "flash"_a);
  module.def("set_threads", [](int threads) { pool(threads); }, "threads"_a);
}

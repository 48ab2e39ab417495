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
  module.def("new_pages", &keep<Pages, int, int, int, int, int>, "layers"_a, "pages"_a, "page"_a, "kv_heads"_a,
             "dims"_a);
  module.def(
      "ragged_model",
      [](nb::capsule model, nb::capsule pages, std::vector<int> tokens, const std::vector<int>& lengths,
         const std::vector<int>& starts, const std::vector<int>& scored, std::vector<std::vector<int>> tables,
         bool int8) {
        const auto held = kept<HeldModel>(model);
        const auto memory = kept<Pages>(pages);
        nb::gil_scoped_release others_may_run;
        return ragged_model(*held, *memory, std::move(tokens), lengths, starts, scored, std::move(tables), int8);
      },
      "model"_a, "pages"_a, "tokens"_a, "lengths"_a, "starts"_a, "scored"_a, "tables"_a, "int8"_a);
  module.def(
      "attend_in_pages",
      [](nb::capsule pages, int layer, const mx::array& query, const mx::array& key, const mx::array& value,
         const std::vector<int>& lengths, const std::vector<int>& starts, std::vector<std::vector<int>> tables) {
        const auto memory = kept<Pages>(pages);
        nb::gil_scoped_release others_may_run;
        return attend_in_pages(*memory, layer, query, key, value, lengths, starts, std::move(tables));
      },
      "pages"_a, "layer"_a, "query"_a, "key"_a, "value"_a, "lengths"_a, "starts"_a, "tables"_a);
  module.def("set_threads", [](int threads) { pool(threads); }, "threads"_a);
}

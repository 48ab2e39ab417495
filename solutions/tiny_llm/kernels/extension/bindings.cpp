// --- given
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "../pool.h"
#include "primitives.h"
#include "training.h"

namespace nb = nanobind;
using namespace nb::literals;

/// Wraps a C++ object for Python in a capsule, not a class: two copies of this module may be loaded in one process, and
/// nanobind registers a class only once.
template <class Thing, class... Arguments>
nb::capsule to_capsule(Arguments&&... arguments) {
  using Shared = std::shared_ptr<Thing>;
  auto end = [](void* kept) noexcept { delete static_cast<Shared*>(kept); };
  return nb::capsule(new Shared(std::make_shared<Thing>(std::forward<Arguments>(arguments)...)), end);
}

template <class Thing>
std::shared_ptr<Thing> from_capsule(const nb::capsule& capsule) {
  return *static_cast<std::shared_ptr<Thing>*>(capsule.data());
}

NB_MODULE(_kernels, module) {
  nb::module_::import_("mlx.core");  // registers the type of arrays
  module.def("quantized_matmul", &quantized_matmul, "x"_a, "packed"_a, "scales"_a, "biases"_a, "group_size"_a,
             "int8"_a);
  module.def("new_caches", [] { return to_capsule<Caches>(); });
  module.def("new_model", &to_capsule<OwnedModel, std::vector<mx::array>, int, float, int>, "arrays"_a, "head_dim"_a,
             "eps"_a, "group_size"_a);
  module.def(
      "fused_model",
      [](const mx::array& tokens, nb::capsule model, nb::capsule caches, const mx::array& previous, int offset,
         bool all_positions, bool int8, bool flash) {
        return fused_model(tokens, from_capsule<OwnedModel>(model), from_capsule<Caches>(caches), previous, offset,
                           all_positions, int8, flash);
      },
      "tokens"_a, "model"_a, "caches"_a, "previous"_a, "offset"_a, "all_positions"_a, "int8"_a, "flash"_a);
  module.def("new_pages", &to_capsule<Pages, int, int, int, int, int>, "layers"_a, "pages"_a, "page_size"_a,
             "kv_heads"_a, "dims"_a);
  module.def(
      "ragged_model",
      [](nb::capsule model, nb::capsule pages, std::vector<int> tokens, const std::vector<int>& lengths,
         const std::vector<int>& starts, const std::vector<int>& num_logits,
         std::vector<std::vector<int>> block_tables, bool int8) {
        const auto owned = from_capsule<OwnedModel>(model);
        const auto kv_pages = from_capsule<Pages>(pages);
        nb::gil_scoped_release others_may_run;
        return ragged_model(*owned, *kv_pages, std::move(tokens), lengths, starts, num_logits, std::move(block_tables),
                            int8);
      },
      "model"_a, "pages"_a, "tokens"_a, "lengths"_a, "starts"_a, "num_logits"_a, "block_tables"_a, "int8"_a);
  module.def(
      "attend_in_pages",
      [](nb::capsule pages, int layer, const mx::array& query, const mx::array& key, const mx::array& value,
         const std::vector<int>& lengths, const std::vector<int>& starts,
         std::vector<std::vector<int>> block_tables) {
        const auto kv_pages = from_capsule<Pages>(pages);
        nb::gil_scoped_release others_may_run;
        return attend_in_pages(*kv_pages, layer, query, key, value, lengths, starts, std::move(block_tables));
      },
      "pages"_a, "layer"_a, "query"_a, "key"_a, "value"_a, "lengths"_a, "starts"_a, "block_tables"_a);
  module.def("cross_entropy", &training::cross_entropy, "logits"_a, "targets"_a, "scale"_a, "ignored"_a);
  module.def("rms_norm", &training::rms_norm, "x"_a, "weight"_a, "eps"_a);
  module.def("rms_norm_vjp", &training::rms_norm_vjp, "x"_a, "weight"_a, "dy"_a, "eps"_a);
  module.def("swiglu", &training::swiglu, "gate"_a, "up"_a);
  module.def("swiglu_vjp", &training::swiglu_vjp, "gate"_a, "up"_a, "dy"_a);
  module.def("packed_attention", &training::packed_attention, "queries"_a, "keys"_a, "values"_a, "documents"_a);
  module.def("packed_attention_vjp", &training::packed_attention_vjp, "queries"_a, "keys"_a, "values"_a, "documents"_a,
             "y"_a, "log_sums"_a, "dy"_a);
  module.def("set_threads", [](int threads) { pool(threads); }, "threads"_a);
}

// --- given
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "../pool.h"
#include "primitives.h"

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_kernels, module) {
  nb::module_::import_("mlx.core");  // it knows what an array is
  module.def("quantized_matmul", &quantized_matmul, "x"_a, "packed"_a, "scales"_a, "biases"_a, "group_size"_a,
             "int8"_a);
  module.def("layer", &layer, "x"_a, "keys"_a, "values"_a, "weights"_a, "offset"_a, "head_dim"_a, "eps"_a,
             "group_size"_a, "int8"_a);
  module.def("set_threads", [](int threads) { pool(threads); }, "threads"_a);
}

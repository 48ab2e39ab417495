// --- given
#include "primitives.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "mlx/allocator.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"
#include "mlx/utils.h"

namespace {

/// What both operations have in common: they run on the CPU, wherever else MLX computes.
class OnCpu : public mx::Primitive {
 public:
  OnCpu() : mx::Primitive(mx::default_stream(mx::Device::cpu)) {}

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("the kernels of week 2, day 4 run on the CPU");
  }

 protected:
  /// Lets MLX's thread for this stream run `work`, after what was given to it before. The arrays stay alive till then.
  /// Nobody catches what is thrown in that thread, so it is said here, once, and the result is NaN.
  template <class Work>
  void later(const mx::array& y, Work work) {
    auto run = [work = std::move(work), y = mx::array::unsafe_weak_copy(y)]() mutable {
      try {
        work();
      } catch (const std::exception& error) {
        static std::atomic<bool> said{false};
        if (!said.exchange(true)) std::fprintf(stderr, "A kernel has thrown: %s\n", error.what());
        std::fill_n(y.data<float>(), y.size(), std::nanf(""));
      }
    };
    mx::cpu::get_command_encoder(stream()).dispatch(std::move(run));
  }
};

mx::array row_major(const mx::array& a) { return mx::contiguous(a, false, mx::Device::cpu); }

std::vector<mx::array> weak(const std::vector<mx::array>& arrays) {
  std::vector<mx::array> copies;
  for (const mx::array& a : arrays) copies.push_back(mx::array::unsafe_weak_copy(a));
  return copies;
}

Matrix matrix(const mx::array& packed, const mx::array& scales, const mx::array& biases, int group_size) {
  const int outputs = packed.shape(0), inputs = packed.shape(1) * 8;
  const int type = scales.dtype() == mx::float32 ? 0 : scales.dtype() == mx::float16 ? 1 : 2;
  return {packed.data<uint32_t>(), scales.data<void>(), biases.data<void>(), outputs, inputs, group_size, type};
}

class QuantizedMatmul : public OnCpu {
 public:
  QuantizedMatmul(int group_size, bool int8) : group_size(group_size), int8(int8) {}

  const char* name() const override { return "QuantizedMatmul"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    outputs[0].set_data(mx::allocator::malloc(outputs[0].nbytes()));
    later(outputs[0], [in = weak(inputs), out = weak(outputs), group = group_size, int8 = int8]() mutable {
      const Matrix w = matrix(in[1], in[2], in[3], group);
      multiply(w, in[0].data<float>(), out[0].data<float>(), int(in[0].size() / w.inputs), {int8});
    });
  }

 private:
  int group_size;
  bool int8;
};

class FusedModel : public OnCpu {
 public:
  FusedModel(std::shared_ptr<HeldModel> held, std::shared_ptr<Caches> caches, bool every, Reading reading, bool int8)
      : held(std::move(held)), caches(std::move(caches)), every(every), reading(reading), int8(int8) {}

  const char* name() const override { return "FusedModel"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    outputs[0].set_data(mx::allocator::malloc(outputs[0].nbytes()));
    later(outputs[0], [in = weak(inputs), out = weak(outputs), held = held, caches = caches, every = every,
                       reading = reading, int8 = int8]() mutable {
      const Model& model = held->model;
      const int* tokens = in[0].data<int32_t>();
      Step step;
      step.ways = {int8};
      for (int r = 0; r < reading.batch * reading.length; ++r) {
        step.tokens.push_back(tokens[r]);
        step.positions.push_back(reading.offset + r % reading.length);
        if (every || (r + 1) % reading.length == 0) step.scored.push_back(r);
      }
      InCaches memory(model.layers.at(0), int(model.layers.size()), *caches, reading);
      run_model(model, step, memory, out[0].data<float>());
    });
  }

 private:
  std::shared_ptr<HeldModel> held;
  std::shared_ptr<Caches> caches;
  bool every;
  Reading reading;
  bool int8;
};

}  // namespace

mx::array quantized_matmul(const mx::array& x, const mx::array& packed, const mx::array& scales,
                           const mx::array& biases, int group_size, bool int8) {
  mx::Shape shape = x.shape();
  shape.back() = packed.shape(0);
  return mx::array(shape, mx::float32, std::make_shared<QuantizedMatmul>(group_size, int8),
                   {row_major(x), row_major(packed), row_major(scales), row_major(biases)});
}

HeldModel::HeldModel(std::vector<mx::array> given, int head_dim, float eps, int group_size) : arrays(std::move(given)) {
  size_t at = 0;
  auto floats = [&] {
    const mx::array& a = arrays[at++];
    return a.size() ? a.data<float>() : nullptr;
  };
  auto quantized = [&] {
    at += 3;
    return matrix(arrays[at - 3], arrays[at - 2], arrays[at - 1], group_size);
  };
  model.eps = eps, model.norm = floats(), model.positions = arrays[1].shape(0);
  const float *cos = floats(), *sin = floats();
  model.table = quantized(), model.head = quantized();
  while (at < arrays.size()) {
    Layer& layer = model.layers.emplace_back();
    layer.cos = cos, layer.sin = sin, layer.eps = eps, layer.head_dim = head_dim;
    layer.input_norm = floats(), layer.mlp_norm = floats();
    layer.q_norm = floats(), layer.k_norm = floats(), layer.qkv_bias = floats();
    layer.qkv = quantized(), layer.out = quantized(), layer.gate_up = quantized(), layer.down = quantized();
    layer.hidden = layer.qkv.inputs, layer.width = layer.down.inputs, layer.heads = layer.out.inputs / head_dim;
    layer.kv_heads = (layer.qkv.outputs / head_dim - layer.heads) / 2;
  }
}

mx::array fused_model(const mx::array& tokens, std::shared_ptr<HeldModel> held, std::shared_ptr<Caches> caches,
                      const mx::array& before, int offset, bool every, bool int8, bool flash) {
  const int batch = tokens.shape(0), length = tokens.shape(1);
  const mx::Shape shape{batch, every ? length : 1, held->model.head.outputs};
  const Reading reading{batch, length, offset, flash};
  return mx::array(shape, mx::float32, std::make_shared<FusedModel>(std::move(held), std::move(caches), every, reading, int8),
                   {row_major(mx::astype(tokens, mx::int32, mx::Device::cpu)), before});
}

static std::vector<Part> parts_of(const std::vector<int>& lengths, const std::vector<int>& starts,
                                  std::vector<std::vector<int>> tables) {
  std::vector<Part> parts;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int first = i ? parts.back().first + parts.back().length : 0;
    parts.push_back({first, lengths[i], starts[i], std::move(tables[i])});
  }
  return parts;
}

mx::array ragged_model(HeldModel& held, Pages& pages, std::vector<int> tokens, const std::vector<int>& lengths,
                       const std::vector<int>& starts, const std::vector<int>& scored,
                       std::vector<std::vector<int>> tables, bool int8) {
  const Model& model = held.model;
  Step step;
  step.ways = {int8, true};
  step.tokens = std::move(tokens);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int end = starts[i] + lengths[i];
    if (end > model.positions)
      throw std::invalid_argument(std::to_string(end) + " tokens are more than max_position_embeddings = " +
                                  std::to_string(model.positions));
    for (int p = starts[i]; p < end; ++p) step.positions.push_back(p);
    for (int s = scored[i]; s > 0; --s) step.scored.push_back(int(step.positions.size()) - s);
  }
  InPages memory(model.layers.at(0).heads, pages, parts_of(lengths, starts, std::move(tables)));
  const mx::Shape shape{int(step.scored.size()), model.head.outputs};
  const size_t numbers = std::max<size_t>(1, step.scored.size()) * model.head.outputs;
  mx::array logits(mx::allocator::malloc(numbers * sizeof(float)), shape, mx::float32);
  run_model(model, step, memory, logits.data<float>());
  return logits;
}

mx::array attend_in_pages(Pages& pages, int number, mx::array query, mx::array key, mx::array value,
                          const std::vector<int>& lengths, const std::vector<int>& starts,
                          std::vector<std::vector<int>> tables) {
  mx::eval(query, key, value);
  const int tokens = query.shape(0), heads = query.shape(1);
  const int64_t kept = int64_t(pages.kv_heads) * pages.dims;
  InPages memory(heads, pages, parts_of(lengths, starts, std::move(tables)));
  for (int r = 0; r < tokens; ++r)
    memory.keep(number, r, key.data<float>() + r * kept, value.data<float>() + r * kept);
  mx::array attended(mx::allocator::malloc(query.nbytes()), query.shape(), mx::float32);
  memory.attend(number, query.data<float>(), int64_t(heads) * pages.dims, attended.data<float>());
  return attended;
}

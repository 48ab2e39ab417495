// --- given
#include "primitives.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "mlx/allocator.h"
#include "mlx/ops.h"
#include "mlx/transforms.h"

#include "../kernels.h"
#include "on_cpu.h"

namespace {

Matrix matrix(const mx::array& packed, const mx::array& scales, const mx::array& biases, int group_size) {
  const int outputs = packed.shape(0), inputs = packed.shape(1) * 8;
  const int type = scales.dtype() == mx::float32 ? 0 : scales.dtype() == mx::float16 ? 1 : 2;
  return {packed.data<uint32_t>(), scales.data<void>(), biases.data<void>(), outputs, inputs, group_size, type};
}

/// Weights of a product that one thread ends before another has woken up: between two products, MLX's operations run.
constexpr int64_t SMALL = 1 << 18;

class QuantizedMatmul : public OnCpu {
 public:
  QuantizedMatmul(int group_size, bool int8) : group_size(group_size), int8(int8) {}

  const char* name() const override { return "QuantizedMatmul"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    outputs[0].set_data(mx::allocator::malloc(outputs[0].nbytes()));
    dispatch(outputs, [in = weak(inputs), out = weak(outputs), group = group_size, int8 = int8]() mutable {
      const Matrix w = matrix(in[1], in[2], in[3], group);
      const float* x = in[0].data<float>();
      float* y = out[0].data<float>();
      const int rows = int(in[0].size() / w.inputs);
      if (rows == 1 && !int8 && int64_t(w.outputs) * w.inputs < SMALL)
        matvec_simd(x, w.packed, w.scales, w.biases, y, w.outputs, w.inputs, w.group_size, w.scale_type);
      else
        multiply(w, x, y, rows, {int8});
    });
  }

 private:
  int group_size;
  bool int8;
};

class FusedModel : public OnCpu {
 public:
  FusedModel(std::shared_ptr<OwnedModel> owned, std::shared_ptr<Caches> caches, bool all_positions, Batch batch,
             bool int8)
      : owned(std::move(owned)), caches(std::move(caches)), all_positions(all_positions), batch(batch), int8(int8) {}

  const char* name() const override { return "FusedModel"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    outputs[0].set_data(mx::allocator::malloc(outputs[0].nbytes()));
    dispatch(outputs, [in = weak(inputs), out = weak(outputs), owned = owned, caches = caches,
                          all_positions = all_positions, batch = batch, int8 = int8]() mutable {
      const Model& model = owned->model;
      const int* tokens = in[0].data<int32_t>();
      Step step;
      step.options = {int8};
      for (int r = 0; r < batch.rows * batch.length; ++r) {
        step.tokens.push_back(tokens[r]);
        step.positions.push_back(batch.offset + r % batch.length);
        if (all_positions || (r + 1) % batch.length == 0) step.logit_rows.push_back(r);
      }
      DenseKVCache kv_cache(model.layers.at(0), int(model.layers.size()), *caches, batch);
      run_model(model, step, kv_cache, out[0].data<float>());
    });
  }

 private:
  std::shared_ptr<OwnedModel> owned;
  std::shared_ptr<Caches> caches;
  bool all_positions;
  Batch batch;
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

OwnedModel::OwnedModel(std::vector<mx::array> given, int head_dim, float eps, int group_size)
    : arrays(std::move(given)) {
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

mx::array fused_model(const mx::array& tokens, std::shared_ptr<OwnedModel> owned, std::shared_ptr<Caches> caches,
                      const mx::array& previous, int offset, bool all_positions, bool int8, bool flash) {
  const Batch batch{tokens.shape(0), tokens.shape(1), offset, flash};
  const mx::Shape shape{batch.rows, all_positions ? batch.length : 1, owned->model.head.outputs};
  return mx::array(shape, mx::float32,
                   std::make_shared<FusedModel>(std::move(owned), std::move(caches), all_positions, batch, int8),
                   {row_major(mx::astype(tokens, mx::int32, mx::Device::cpu)), previous});
}

static std::vector<Chunk> chunks_of(const std::vector<int>& lengths, const std::vector<int>& starts,
                                    std::vector<std::vector<int>> block_tables) {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int first = i ? chunks.back().first + chunks.back().length : 0;
    chunks.push_back({first, lengths[i], starts[i], std::move(block_tables[i])});
  }
  return chunks;
}

mx::array ragged_model(OwnedModel& owned, Pages& pages, std::vector<int> tokens, const std::vector<int>& lengths,
                       const std::vector<int>& starts, const std::vector<int>& num_logits,
                       std::vector<std::vector<int>> block_tables, bool int8) {
  const Model& model = owned.model;
  Step step;
  step.options = {int8, true};
  step.tokens = std::move(tokens);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int end = starts[i] + lengths[i];
    if (end > model.positions)
      throw std::invalid_argument(std::to_string(end) + " tokens are more than max_position_embeddings = " +
                                  std::to_string(model.positions));
    for (int p = starts[i]; p < end; ++p) step.positions.push_back(p);
    for (int s = num_logits[i]; s > 0; --s) step.logit_rows.push_back(int(step.positions.size()) - s);
  }
  PagedKVCache kv_cache(model.layers.at(0).heads, pages, chunks_of(lengths, starts, std::move(block_tables)));
  const mx::Shape shape{int(step.logit_rows.size()), model.head.outputs};
  const size_t numbers = std::max<size_t>(1, step.logit_rows.size()) * model.head.outputs;
  mx::array logits(mx::allocator::malloc(numbers * sizeof(float)), shape, mx::float32);
  run_model(model, step, kv_cache, logits.data<float>());
  return logits;
}

mx::array attend_in_pages(Pages& pages, int number, mx::array query, mx::array key, mx::array value,
                          const std::vector<int>& lengths, const std::vector<int>& starts,
                          std::vector<std::vector<int>> block_tables) {
  mx::eval(query, key, value);
  const int tokens = query.shape(0), heads = query.shape(1);
  const int64_t kept = int64_t(pages.kv_heads) * pages.dims;
  PagedKVCache kv_cache(heads, pages, chunks_of(lengths, starts, std::move(block_tables)));
  for (int r = 0; r < tokens; ++r)
    kv_cache.append(number, r, key.data<float>() + r * kept, value.data<float>() + r * kept);
  mx::array attended(mx::allocator::malloc(query.nbytes()), query.shape(), mx::float32);
  kv_cache.attend(number, query.data<float>(), int64_t(heads) * pages.dims, attended.data<float>());
  return attended;
}

// --- given
#include "training.h"

#include <cmath>
#include <functional>
#include <memory>

#include "mlx/allocator.h"

#include "../training.h"
#include "on_cpu.h"

namespace training {
namespace {

/// A kernel's call with its arrays, whose memory is allocated and row-major.
using Call = std::function<void(const Arrays& in, Arrays& out)>;

class Kernel : public OnCpu {
 public:
  explicit Kernel(Call call) : call(std::move(call)) {}

  const char* name() const override { return "Kernel"; }

  void eval_cpu(const Arrays& inputs, Arrays& outputs) override {
    for (mx::array& y : outputs) y.set_data(mx::allocator::malloc(y.nbytes()));
    dispatch(outputs, [in = weak(inputs), out = weak(outputs), call = call]() mutable { call(in, out); });
  }

 private:
  Call call;
};

/// Returns float32 arrays of these shapes, which `call` computes from the inputs when they are needed.
Arrays lazily(const std::vector<mx::Shape>& shapes, const Arrays& inputs, Call call) {
  Arrays plain;
  for (const mx::array& a : inputs) plain.push_back(row_major(a));
  const std::vector<mx::Dtype> types(shapes.size(), mx::float32);
  return mx::array::make_arrays(shapes, types, std::make_shared<Kernel>(std::move(call)), plain);
}

const float* floats(const mx::array& a) { return a.data<float>(); }
const int* ints(const mx::array& a) { return a.data<int>(); }
float* filled(mx::array& a) { return a.data<float>(); }

}  // namespace

Arrays cross_entropy(const mx::array& logits, const mx::array& targets, const mx::array& scale, int ignored) {
  return lazily({targets.shape(), logits.shape()}, {logits, targets, scale}, [=](const Arrays& in, Arrays& out) {
    const int rows = int(in[1].size()), vocab = in[0].shape(-1);
    ::cross_entropy(floats(in[0]), ints(in[1]), filled(out[0]), filled(out[1]), rows, vocab, ignored, *floats(in[2]));
  });
}

mx::array rms_norm(const mx::array& x, const mx::array& weight, float eps) {
  return lazily({x.shape()}, {x, weight}, [=](const Arrays& in, Arrays& out) {
    const int size = int(in[1].size());
    ::rms_norm(floats(in[0]), floats(in[1]), filled(out[0]), int(in[0].size() / size), size, eps);
  })[0];
}

Arrays rms_norm_vjp(const mx::array& x, const mx::array& weight, const mx::array& dy, float eps) {
  return lazily({x.shape(), weight.shape()}, {x, weight, dy}, [=](const Arrays& in, Arrays& out) {
    const int size = int(in[1].size()), rows = int(in[0].size() / size);
    ::rms_norm_vjp(floats(in[0]), floats(in[1]), floats(in[2]), filled(out[0]), filled(out[1]), rows, size, eps);
  });
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return lazily({gate.shape()}, {gate, up}, [](const Arrays& in, Arrays& out) {
    ::swiglu(floats(in[0]), floats(in[1]), filled(out[0]), int(in[0].size()));
  })[0];
}

Arrays swiglu_vjp(const mx::array& gate, const mx::array& up, const mx::array& dy) {
  return lazily({gate.shape(), gate.shape()}, {gate, up, dy}, [](const Arrays& in, Arrays& out) {
    ::swiglu_vjp(floats(in[0]), floats(in[1]), floats(in[2]), filled(out[0]), filled(out[1]), int(in[0].size()));
  });
}

Arrays packed_attention(const mx::array& queries, const mx::array& keys, const mx::array& values,
                        const mx::array& documents) {
  const int length = queries.shape(1), heads = queries.shape(2);
  const mx::Shape sums{queries.shape(0), heads, length};
  return lazily({queries.shape(), sums}, {queries, keys, values, documents}, [](const Arrays& in, Arrays& out) {
    const mx::Shape &q = in[0].shape(), &k = in[1].shape();
    ::packed_attention(floats(in[0]), floats(in[1]), floats(in[2]), ints(in[3]), filled(out[0]), filled(out[1]), q[0],
                       q[1], q[2], k[2], q[3], 1 / std::sqrt(float(q[3])));
  });
}

Arrays packed_attention_vjp(const mx::array& queries, const mx::array& keys, const mx::array& values,
                            const mx::array& documents, const mx::array& y, const mx::array& log_sums,
                            const mx::array& dy) {
  return lazily({queries.shape(), keys.shape(), values.shape()}, {queries, keys, values, documents, y, log_sums, dy},
                [](const Arrays& in, Arrays& out) {
    const mx::Shape &q = in[0].shape(), &k = in[1].shape();
    ::packed_attention_vjp(floats(in[0]), floats(in[1]), floats(in[2]), ints(in[3]), floats(in[4]), floats(in[5]),
                           floats(in[6]), filled(out[0]), filled(out[1]), filled(out[2]), q[0], q[1], q[2], k[2], q[3],
                           1 / std::sqrt(float(q[3])));
  });
}

}  // namespace training

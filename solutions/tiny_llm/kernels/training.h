// --- given
// The kernels of training, forward and backward, as the extension calls them: float32, row-major.
#pragma once
#include <cstdint>

extern "C" {
void cross_entropy(const float* logits, const int* targets, float* losses, float* gradients, int rows, int vocab,
                   int ignored, float scale);
void rms_norm(const float* x, const float* weight, float* y, int rows, int size, float eps);
void rms_norm_vjp(const float* x, const float* weight, const float* dy, float* dx, float* dweight, int rows, int size,
                  float eps);
void swiglu(const float* gate, const float* up, float* y, int count);
void swiglu_vjp(const float* gate, const float* up, const float* dy, float* dgate, float* dup, int count);
void packed_attention(const float* queries, const float* keys, const float* values, const int* documents, float* y,
                      float* log_sums, int batch, int length, int heads, int kv_heads, int dims, float scale);
void packed_attention_vjp(const float* queries, const float* keys, const float* values, const int* documents,
                          const float* y, const float* log_sums, const float* dy, float* dqueries, float* dkeys,
                          float* dvalues, int batch, int length, int heads, int kv_heads, int dims, float scale);
}

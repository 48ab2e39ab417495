// --- given
// The kernels that the extension calls. Each is defined in the file of its name, which compiles separately.
#pragma once
#include <cstdint>

extern "C" {
void matvec_simd(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int outputs,
                 int inputs, int group_size, int scale_type);
void matvec_threads(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y,
                    int outputs, int inputs, int group_size, int scale_type);
void matvecs(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
             int outputs, int inputs, int group_size, int scale_type);
void matmul(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
            int outputs, int inputs, int group_size, int scale_type);
void matvec_int8(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int outputs,
                 int inputs, int group_size, int scale_type);
void matvecs_int8(const float* x, const uint32_t* packed, const void* scales, const void* biases, float* y, int tokens,
                  int outputs, int inputs, int group_size, int scale_type);
void attend(const float* queries, const float* keys, const float* values, float* attended, int heads, int dims,
            int length, float scale);
void paged_attend(const float* queries, const float* keys, const float* values, const int* table, float* attended,
                  int group, int kv_heads, int kv_head, int dims, int page, int tokens, float scale);
void paged_flash(const float* queries, const float* keys, const float* values, const int* table, float* attended,
                 int heads, int kv_heads, int dims, int page, int length, int tokens, float scale);
}
void flash_attention(const float* queries, const float* const* keys, const float* const* values, float* attended,
                     int heads, int kv_heads, int dims, int length, int tokens, float scale);

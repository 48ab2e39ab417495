// --- given
// Metal's names for CUDA; MLX puts this before a kernel's body there. A SIMD-group operation needs all 32 threads; in
// Metal the active ones are enough.
#pragma once

typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef __half float16_t;
typedef __nv_bfloat16 bfloat;
typedef __nv_bfloat16 bfloat16_t;

#define METAL_FUNC __device__ __forceinline__

// Thread indices.
#define threadgroup_position_in_grid blockIdx
#define thread_position_in_threadgroup threadIdx
#define threads_per_threadgroup blockDim
#define threadgroups_per_grid gridDim
#define threads_per_simdgroup 32u
METAL_FUNC uint3 metal_thread_position_in_grid() {
  return make_uint3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                    blockIdx.z * blockDim.z + threadIdx.z);
}
METAL_FUNC uint3 metal_threads_per_grid() {
  return make_uint3(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
}
METAL_FUNC uint metal_thread_index() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
#define thread_position_in_grid metal_thread_position_in_grid()
#define threads_per_grid metal_threads_per_grid()
#define thread_index_in_threadgroup metal_thread_index()
#define thread_index_in_simdgroup (metal_thread_index() % 32)
#define simdgroup_index_in_threadgroup (metal_thread_index() / 32)
#define simdgroups_per_threadgroup ((blockDim.x * blockDim.y * blockDim.z + 31) / 32)

// Barriers. A threadgroup barrier orders all memory of the threadgroup here.
struct mem_flags {
  enum { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
};
METAL_FUNC void threadgroup_barrier(int) { __syncthreads(); }
METAL_FUNC void simdgroup_barrier(int) { __syncwarp(); }

// SIMD-group operations.
template <class T>
METAL_FUNC T simd_shuffle(T value, ushort lane) {
  return __shfl_sync(0xffffffff, value, lane);
}
template <class T>
METAL_FUNC T simd_shuffle_xor(T value, ushort mask) {
  return __shfl_xor_sync(0xffffffff, value, mask);
}
template <class T>
METAL_FUNC T simd_shuffle_down(T value, ushort by) {
  return __shfl_down_sync(0xffffffff, value, by);
}
template <class T>
METAL_FUNC T simd_shuffle_up(T value, ushort by) {
  return __shfl_up_sync(0xffffffff, value, by);
}
template <class T>
METAL_FUNC T simd_broadcast(T value, ushort lane) {
  return simd_shuffle(value, lane);
}
template <class T>
METAL_FUNC T simd_sum(T value) {
  for (ushort mask = 16; mask; mask /= 2) value += simd_shuffle_xor(value, mask);
  return value;
}
template <class T>
METAL_FUNC T simd_max(T value) {
  for (ushort mask = 16; mask; mask /= 2) {
    const T other = simd_shuffle_xor(value, mask);
    value = value < other ? other : value;
  }
  return value;
}
template <class T>
METAL_FUNC T simd_min(T value) {
  for (ushort mask = 16; mask; mask /= 2) {
    const T other = simd_shuffle_xor(value, mask);
    value = other < value ? other : value;
  }
  return value;
}

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

// Functions of float, by Metal's names.
namespace metal {
METAL_FUNC float abs(float x) { return ::fabsf(x); }
METAL_FUNC float cos(float x) { return ::cosf(x); }
METAL_FUNC float exp(float x) { return ::expf(x); }
METAL_FUNC float exp2(float x) { return ::exp2f(x); }
METAL_FUNC float log(float x) { return ::logf(x); }
METAL_FUNC float log2(float x) { return ::log2f(x); }
METAL_FUNC float rsqrt(float x) { return ::rsqrtf(x); }
METAL_FUNC float sin(float x) { return ::sinf(x); }
METAL_FUNC float sqrt(float x) { return ::sqrtf(x); }
METAL_FUNC float fma(float x, float y, float z) { return ::fmaf(x, y, z); }
METAL_FUNC float max(float x, float y) { return ::fmaxf(x, y); }
METAL_FUNC float min(float x, float y) { return ::fminf(x, y); }
}  // namespace metal

// --- given
// A matrix as `mx.quantize` packs it: outputs x inputs 4-bit weights, in groups that share a scale and a bias.
//
//   weight[o][i] = scale[o][i / group_size] * q + bias[o][i / group_size],   q = packed[o][i / 8] >> 4 * (i % 8) & 15
//
// packed is outputs x (inputs / 8), scales and biases are outputs x (inputs / group_size), all of them row by row.
#pragma once
#include <cstdint>

#include "lanes.h"

constexpr int PER_WORD = 8;              // weights in 32 bits
constexpr int BLOCK = PER_WORD * LANES;  // weights in one register of words
constexpr int LINE = 16 / LANES;         // registers of words in a cache line of 64 bytes

// The types of scales and biases: `scale_type` is 0, 1 or 2.
typedef float Float32;
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float number(Float32 v) { return v; }

inline float number(BFloat16 v) {  // the upper half of a float32
  const uint32_t bits = uint32_t(v.bits) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

inline float number(Float16 v) {  // the exponent's bias is 15, a float32's is 127: the product corrects it
  const uint32_t bits = uint32_t(v.bits & 0x7fff) << 13;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return (v.bits & 0x8000 ? -0x1p112f : 0x1p112f) * f;
}

/// Returns element `at` of scales or biases of any type.
inline float number_at(const void* numbers, int64_t at, int scale_type) {
  switch (scale_type) {
    case 0:
      return number(static_cast<const Float32*>(numbers)[at]);
    case 1:
      return number(static_cast<const Float16*>(numbers)[at]);
    default:
      return number(static_cast<const BFloat16*>(numbers)[at]);
  }
}

/// A register of N numbers; N = 4 is for rows with fewer groups than the others have lanes.
template <int N>
struct Register {
  typedef float Floats __attribute__((vector_size(4 * N)));
  typedef uint32_t Words __attribute__((vector_size(4 * N)));
  typedef uint16_t Halves __attribute__((vector_size(2 * N)));
};

/// N of them, as floats.
template <int N>
inline auto numbers(const Float32* from) {
  return load<typename Register<N>::Floats>(from);
}

template <int N>
inline auto numbers(const BFloat16* from) {
  const auto bits = __builtin_convertvector(load<typename Register<N>::Halves>(from), typename Register<N>::Words);
  return (typename Register<N>::Floats)(bits << 16);
}

template <int N>
inline auto numbers(const Float16* from) {
  using V = Register<N>;
  const auto bits = __builtin_convertvector(load<typename V::Halves>(from), typename V::Words);
  const auto size = (typename V::Floats)((bits & 0x7fff) << 13) * 0x1p112f;
  return (typename V::Floats)((typename V::Words)size | (bits & 0x8000) << 16);
}

/// Converts `count` elements of scales or biases of any type, from element `first` on, to floats.
inline void widen(const void* from, int64_t first, int count, int scale_type, float* floats) {
  auto of = [&](auto type) {
    const auto* each = static_cast<const decltype(type)*>(from) + first;
    int i = 0;
    for (; i + LANES <= count; i += LANES) store(floats + i, numbers<LANES>(each + i));
    for (; i < count; ++i) floats[i] = number(each[i]);
  };
  scale_type == 0 ? of(Float32{}) : scale_type == 1 ? of(Float16{}) : of(BFloat16{});
}

template <class Scale>
inline float prepare(const Scale* scales, const Scale* biases, const float* factors, const float* sums, int groups,
                     float* scaled) {
  Floats added{};
  int g = 0;
  for (; g + LANES <= groups; g += LANES) {
    store(scaled + g, numbers<LANES>(scales + g) * load(factors + g));
    added += numbers<LANES>(biases + g) * load(sums + g);
  }
  Four fewer{};
  for (; g + 4 <= groups; g += 4) {
    const Four four = numbers<4>(scales + g) * load<Four>(factors + g);
    std::memcpy(scaled + g, &four, sizeof four);
    fewer += numbers<4>(biases + g) * load<Four>(sums + g);
  }
  float rest = (fewer[0] + fewer[1]) + (fewer[2] + fewer[3]);
  for (; g < groups; ++g) {
    scaled[g] = number(scales[g]) * factors[g];
    rest += number(biases[g]) * sums[g];
  }
  return sum(added) + rest;
}

/// Writes the scales of row `o`, each times its group's factor, to scaled; returns the contribution of the row's biases
/// to the product: the sum over groups of bias times the group's sum of x.
inline float prepare_scales(const void* scales, const void* biases, int scale_type, int64_t o, int groups,
                            const float* factors, const float* sums, float* scaled) {
  auto of = [&](auto type) {
    using Scale = decltype(type);
    const int64_t first = o * groups;
    return prepare(static_cast<const Scale*>(scales) + first, static_cast<const Scale*>(biases) + first, factors, sums,
                   groups, scaled);
  };
  return scale_type == 0 ? of(Float32{}) : scale_type == 1 ? of(Float16{}) : of(BFloat16{});
}

/// The scales of a block with PARTS groups, each in the lanes of its words.
template <int PARTS>
inline Floats scales_of_parts(const float* scales) {
  Ints lanes;
  for (int lane = 0; lane < LANES; ++lane) lanes[lane] = lane;
  Floats spread = all(scales[0]);
  for (int part = 1; part < PARTS; ++part) spread = lanes < part * (LANES / PARTS) ? spread : all(scales[part]);
  return spread;
}

/// The scales of a block, one per lane; groups have 32, 64 or 128 weights and may be shorter than the block.
inline Floats scales_of_block(const float* scales, int block, int group_size) {
  if (group_size >= BLOCK) return all(scales[block >> group_size / BLOCK / 2]);  // a group has 1, 2 or 4 blocks
  if (group_size == BLOCK / 2) return scales_of_parts<2>(scales + 2 * block);
  return scales_of_parts<4>(scales + 4 * block);
}

/// Loads the words of a block; if fewer than LANES are `left`, zeros follow them.
inline Words words_of_block(const uint32_t* from, int left) {
  if (left >= LANES) return load<Words>(from);
  Words some{};
  std::memcpy(&some, from, size_t(left) * sizeof(uint32_t));
  return some;
}

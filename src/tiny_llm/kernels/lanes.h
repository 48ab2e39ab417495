// --- given
// Vectors that fit one register: GCC and Clang compile +, * and >> on them to one instruction.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>

// float32 numbers per register. The first processors with AVX-512 lower their clock for it; those with VNNI do not.
#if defined(__AVX512F__) && defined(__AVX512VNNI__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else  // SSE, NEON
constexpr int LANES = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

/// Loads LANES numbers from any address: memcpy is C++'s unaligned load.
template <class Vector, class Number>
inline Vector load(const Number* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline Floats load(const float* from) { return load<Floats>(from); }

inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }

/// Prefetches n numbers, without waiting for them.
inline void prefetch(const float* numbers, int n) {
  for (int i = 0; i < n; i += 16) __builtin_prefetch(numbers + i);  // 16 in a cache line
}

/// Prefetches n numbers 2 KiB ahead of those that are read now.
inline void prefetch_ahead(const float* numbers, int n) { prefetch(numbers + 512, n); }

/// The same number in each lane.
inline Floats all(float number) { return number - Floats{}; }

/// Converts small integers to floats.
inline Floats to_floats(Words v) { return __builtin_convertvector((Ints)v, Floats); }

typedef float Four __attribute__((vector_size(16)));

/// Reduces all lanes to one number, by an associative and commutative operation.
template <class Join>
inline float joined(Floats v, Join join) {
  Four parts[LANES / 4];
  std::memcpy(parts, &v, sizeof v);
  for (int i = 1; i < LANES / 4; ++i) parts[0] = join(parts[0], parts[i]);
  return join(join(parts[0][0], parts[0][2]), join(parts[0][1], parts[0][3]));
}

/// The sum of the lanes.
inline float sum(Floats v) {
  return joined(v, [](auto a, auto b) { return a + b; });
}

/// The largest of the lanes.
inline float largest(Floats v) {
  return joined(v, [](auto a, auto b) { return a > b ? a : b; });
}

/// Shuffles two registers: LANE is a lane of a, or LANES plus a lane of b.
template <uint32_t... LANE>
inline Words pick(Words a, Words b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, LANE...);
#else
  return __builtin_shuffle(a, b, Words{LANE...});
#endif
}

/// Swaps, in pieces of STEP lanes, each odd piece of a with the even piece before it in b: one step of a transpose.
template <uint32_t STEP, uint32_t... LANE>
inline void exchange(Words& a, Words& b, std::integer_sequence<uint32_t, LANE...>) {
  const Words whole = a;
  a = pick<(LANE & STEP ? LANE - STEP + LANES : LANE)...>(whole, b);
  b = pick<(LANE & STEP ? LANE + LANES : LANE + STEP)...>(whole, b);
}

using AllLanes = std::make_integer_sequence<uint32_t, LANES>;

/// Exchanges pieces of two registers and adds them: half of the result's lanes are partial sums of a, half of b.
template <uint32_t STEP>
inline Floats folded(Floats a, Floats b) {
  Words first = (Words)a, second = (Words)b;
  exchange<STEP>(first, second, AllLanes{});
  return (Floats)first + (Floats)second;
}

/// The sums of the lanes of four registers, three times as fast as four calls of `sum`.
inline Four sums(Floats a, Floats b, Floats c, Floats d) {
  const Floats each = folded<2>(folded<1>(a, b), folded<1>(c, d));  // lane i has a partial sum of register i % 4
  Four parts[LANES / 4];
  std::memcpy(parts, &each, sizeof each);
  for (int i = 1; i < LANES / 4; ++i) parts[0] += parts[i];
  return parts[0];
}

/// a . b, each of n numbers.
inline float dot(const float* a, const float* b, int n) {
  Floats total{};
  int i = 0;
  for (; i + LANES <= n; i += LANES) total += load(a + i) * load(b + i);
  float rest = 0;
  for (; i < n; ++i) rest += a[i] * b[i];
  return sum(total) + rest;
}

/// Rounds to the nearest integer, up to 4 million: adding 1.5 * 2^23 leaves no bits for a fraction.
template <class Number>
inline Number nearest(Number x) {
  return (x + 12582912.0f) - 12582912.0f;
}

/// e to the power of each lane, with a relative error of 2e-7. Lanes are clamped to -87 .. 88; exp(-87) is about 1e-38.
inline Floats exp(Floats x) {
  x = x < all(-87.0f) ? all(-87.0f) : x;
  x = x > all(88.0f) ? all(88.0f) : x;
  const Floats n = nearest(x * 1.44269504f);  // x = n ln 2 + r with |r| <= ln 2 / 2
  // ln 2 is split in two parts, so that n times the first is exact.
  const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats series = all(1.0f / 5040);
  for (float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) series = series * r + factor;
  return series * (Floats)((__builtin_convertvector(n, Ints) + 127) << 23);  // 2^n is its exponent's bits
}

// --- given
// Vectors of numbers that fit one register of the machine: GCC and Clang turn +, * and >> of them into one instruction.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>

// float32 numbers in a register. The first processors with AVX-512 slow down for it; those that also have VNNI do not.
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

/// LANES numbers from anywhere in memory: memcpy is how C++ says that an address need not be aligned.
template <class Vector, class Number>
inline Vector load(const Number* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline Floats load(const float* from) { return load<Floats>(from); }

inline void store(float* to, Floats v) { std::memcpy(to, &v, sizeof v); }

/// Asks memory for n numbers that are read soon, and does not wait for them.
inline void ask_for(const float* numbers, int n) {
  for (int i = 0; i < n; i += 16) __builtin_prefetch(numbers + i);  // 16 in a cache line
}

/// Asks memory for n numbers that are 2 KiB further on: whoever reads these now comes there soon.
inline void ask_ahead(const float* numbers, int n) { ask_for(numbers + 512, n); }

/// The same number in each lane.
inline Floats all(float number) { return number - Floats{}; }

/// Small whole numbers as floats.
inline Floats to_floats(Words v) { return __builtin_convertvector((Ints)v, Floats); }

typedef float Four __attribute__((vector_size(16)));

/// All lanes joined into one number, by an operation whose order does not matter.
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

/// A register of lanes that are chosen from two: LANE is the number of one of a, or LANES more than that of one of b.
template <uint32_t... LANE>
inline Words pick(Words a, Words b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, LANE...);
#else
  return __builtin_shuffle(a, b, Words{LANE...});
#endif
}

/// Of the pieces of STEP lanes that two registers have, every second one of a and the one before it of b change places.
template <uint32_t STEP, uint32_t... LANE>
inline void exchange(Words& a, Words& b, std::integer_sequence<uint32_t, LANE...>) {
  const Words whole = a;
  a = pick<(LANE & STEP ? LANE - STEP + LANES : LANE)...>(whole, b);
  b = pick<(LANE & STEP ? LANE + LANES : LANE + STEP)...>(whole, b);
}

using AllLanes = std::make_integer_sequence<uint32_t, LANES>;

/// The sum of two registers whose pieces are exchanged: half as many numbers of each, side by side.
template <uint32_t STEP>
inline Floats folded(Floats a, Floats b) {
  Words first = (Words)a, second = (Words)b;
  exchange<STEP>(first, second, AllLanes{});
  return (Floats)first + (Floats)second;
}

/// The sums of the lanes of four registers: three times as fast as one after another.
inline Four sums(Floats a, Floats b, Floats c, Floats d) {
  const Floats each = folded<2>(folded<1>(a, b), folded<1>(c, d));  // lane i has a part of the sum of register i % 4
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

/// The nearest whole number, up to 4 million. Adding 1.5 * 2^23 leaves no room for a fraction: it rounds.
template <class Number>
inline Number nearest(Number x) {
  return (x + 12582912.0f) - 12582912.0f;
}

/// e to the power of each lane, to 2e-7 of it; of less than -87 it is about 1e-38, and more than 88 counts as 88.
inline Floats exp(Floats x) {
  x = x < all(-87.0f) ? all(-87.0f) : x;
  x = x > all(88.0f) ? all(88.0f) : x;
  const Floats n = nearest(x * 1.44269504f);  // x = n ln 2 + r with |r| <= ln 2 / 2
  // ln 2 comes in two parts, so that n times the first is exact.
  const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats series = all(1.0f / 5040);
  for (float factor : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) series = series * r + factor;
  return series * (Floats)((__builtin_convertvector(n, Ints) + 127) << 23);  // 2^n is its exponent's bits
}

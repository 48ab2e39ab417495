// --- given
// The one step that portable C++ cannot express: four products of bytes, summed in one instruction.
//
// One body per instruction set; the last one is plain C++, for all others.
#pragma once
#include <cstdint>

#include "lanes.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

/// Adds to each lane of sums the dot product of the 8 weights of its word with 8 integers from -127 to 127.
///
/// A byte of a word holds weights 2k (its lower half) and 2k + 1, each from 0 to 15. A lane of even holds the integers
/// for its four even weights, one per byte; a lane of odd those for its odd weights.
inline Ints add_dot(Ints sums, Words words, Ints even, Ints odd) {
#if defined(__AVX512F__) && defined(__AVX512VNNI__)
  const __m512i w = (__m512i)words, low = _mm512_set1_epi8(15);
  const __m512i sum = _mm512_dpbusd_epi32((__m512i)sums, _mm512_and_si512(w, low), (__m512i)even);
  return (Ints)_mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(w, 4), low), (__m512i)odd);
#elif defined(__AVX2__)
  const __m256i w = (__m256i)words, low = _mm256_set1_epi8(15);
  // Pairs of products in 16 bits: four of them are at most 4 * 15 * 127, which fits.
  const __m256i pairs =
      _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_and_si256(w, low), (__m256i)even),
                       _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi16(w, 4), low), (__m256i)odd));
  return sums + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__ARM_FEATURE_DOTPROD)
  const int8x16_t low = vreinterpretq_s8_u8(vandq_u8((uint8x16_t)words, vdupq_n_u8(15)));
  const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8((uint8x16_t)words, 4));
  return (Ints)vdotq_s32(vdotq_s32((int32x4_t)sums, low, (int8x16_t)even), high, (int8x16_t)odd);
#else
  for (int lane = 0; lane < LANES; ++lane)
    for (int byte = 0; byte < 4; ++byte) {
      const uint32_t two = words[lane] >> (8 * byte) & 255;
      sums[lane] += int(two & 15) * int8_t(even[lane] >> 8 * byte) + int(two >> 4) * int8_t(odd[lane] >> 8 * byte);
    }
  return sums;
#endif
}

/// Returns these dot products for x in memory: 8 * LANES integers, first those for even weights, in order, then those
/// for odd ones.
inline Ints dot_of_words(Words words, const int8_t* x) {
  return add_dot(Ints{}, words, load<Ints>(x), load<Ints>(x + 4 * LANES));
}

// --- given
// The one step for which portable C++ has no words: four products of bytes, added in one instruction.
//
// Each instruction set has its own, and so its own body here. The last one is plain C++, for all others.
#pragma once
#include <cstdint>

#include "lanes.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

/// For each lane, the product of the 8 weights of one word with their 8 numbers of x.
///
/// words: LANES of them. A byte of a word holds weights 2k (its lower half) and 2k + 1, from 0 to 15.
/// x: 8 * LANES numbers from -127 to 127: those of the even weights in their order, then those of the odd ones.
inline Ints dot_of_words(Words words, const int8_t* x) {
#if defined(__AVX512F__) && defined(__AVX512VNNI__)
  const __m512i w = (__m512i)words, low = _mm512_set1_epi8(15);
  const __m512i even = _mm512_and_si512(w, low), odd = _mm512_and_si512(_mm512_srli_epi16(w, 4), low);
  const __m512i sum = _mm512_dpbusd_epi32(_mm512_setzero_si512(), even, _mm512_loadu_si512(x));
  return (Ints)_mm512_dpbusd_epi32(sum, odd, _mm512_loadu_si512(x + 64));
#elif defined(__AVX2__)
  const __m256i w = (__m256i)words, low = _mm256_set1_epi8(15);
  const __m256i even = _mm256_and_si256(w, low), odd = _mm256_and_si256(_mm256_srli_epi16(w, 4), low);
  // Pairs of products in 16 bits: four of them are at most 4 * 15 * 127, which fits.
  const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(even, _mm256_loadu_si256((const __m256i*)x)),
                                         _mm256_maddubs_epi16(odd, _mm256_loadu_si256((const __m256i*)(x + 32))));
  return (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__ARM_FEATURE_DOTPROD)
  const int8x16_t even = vreinterpretq_s8_u8(vandq_u8((uint8x16_t)words, vdupq_n_u8(15)));
  const int8x16_t odd = vreinterpretq_s8_u8(vshrq_n_u8((uint8x16_t)words, 4));
  return (Ints)vdotq_s32(vdotq_s32(vdupq_n_s32(0), even, vld1q_s8(x)), odd, vld1q_s8(x + 16));
#else
  Ints sums{};
  for (int lane = 0; lane < LANES; ++lane)
    for (int byte = 0; byte < 4; ++byte) {
      const uint32_t two = words[lane] >> (8 * byte) & 255;
      sums[lane] += int(two & 15) * x[4 * lane + byte] + int(two >> 4) * x[4 * (LANES + lane) + byte];
    }
  return sums;
#endif
}

// Metal's scalar types that C++ does not have.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#define METAL_FUNC inline __attribute__((always_inline))

using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;

// GCC 12 has no _Float16 on ARM; its __fp16 differs in that products are floats until they are assigned.
#if defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13
using half = __fp16;
#else
using half = _Float16;
#endif

namespace metal {
template <class T> constexpr bool is_scalar_number = std::is_arithmetic_v<T> || std::is_same_v<T, half>;

// The upper half of a float. Each result is rounded to it, to the nearest, ties to even.
struct bfloat {
    uint16_t bits;

    bfloat() = default;
    METAL_FUNC constexpr bfloat(float value) : bits(rounded(__builtin_bit_cast(uint32_t, value))) {}
    template <class T, class = std::enable_if_t<is_scalar_number<T>>>
    METAL_FUNC constexpr bfloat(T value) : bfloat(static_cast<float>(value)) {}
    METAL_FUNC constexpr operator float() const { return __builtin_bit_cast(float, uint32_t(bits) << 16); }

    static METAL_FUNC constexpr uint16_t rounded(uint32_t u) {
        if ((u & 0x7fffffff) > 0x7f800000) return 0x7fc0;  // NaN stays NaN
        return uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    }
};

// Of two bfloats, or one and an integer, the result is a bfloat; of one and a float, a float.
#define METAL_BFLOAT_OPERATOR(op)                                                                             \
    METAL_FUNC constexpr bfloat operator op(bfloat a, bfloat b) { return bfloat(float(a) op float(b)); }       \
    METAL_FUNC constexpr float operator op(bfloat a, float b) { return float(a) op b; }                        \
    METAL_FUNC constexpr float operator op(float a, bfloat b) { return a op float(b); }                        \
    METAL_FUNC constexpr float operator op(bfloat a, half b) { return float(a) op float(b); }                  \
    METAL_FUNC constexpr float operator op(half a, bfloat b) { return float(a) op float(b); }                  \
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>>                                       \
    METAL_FUNC constexpr bfloat operator op(bfloat a, I b) { return bfloat(float(a) op float(b)); }            \
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>>                                       \
    METAL_FUNC constexpr bfloat operator op(I a, bfloat b) { return bfloat(float(a) op float(b)); }            \
    template <class T> METAL_FUNC constexpr bfloat& operator op##=(bfloat& a, T b) { return a = bfloat(a op b); }
METAL_BFLOAT_OPERATOR(+)
METAL_BFLOAT_OPERATOR(-)
METAL_BFLOAT_OPERATOR(*)
METAL_BFLOAT_OPERATOR(/)
METAL_FUNC constexpr bfloat operator-(bfloat a) { return bfloat(-float(a)); }

template <class T> constexpr bool is_floating_point_v =
    std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat>;
template <class T> constexpr bool is_integral_v = std::is_integral_v<T>;
template <class T> concept Real = is_floating_point_v<T>;
template <class T> concept Integer = std::is_integral_v<T>;
template <class T> concept Scalar = Real<T> || Integer<T>;

template <class T> struct numeric_limits : std::numeric_limits<T> {};
template <> struct numeric_limits<half> {
    static METAL_FUNC constexpr half infinity() { return half(__builtin_inff()); }
    static METAL_FUNC constexpr half quiet_NaN() { return half(__builtin_nanf("")); }
    static METAL_FUNC constexpr half max() { return half(65504.0f); }
    static METAL_FUNC constexpr half lowest() { return half(-65504.0f); }
    static METAL_FUNC constexpr half min() { return half(6.103515625e-05f); }
    static METAL_FUNC constexpr half epsilon() { return half(0.0009765625f); }
};
template <> struct numeric_limits<bfloat> {
    static METAL_FUNC constexpr bfloat infinity() { return bfloat(__builtin_inff()); }
    static METAL_FUNC constexpr bfloat quiet_NaN() { return bfloat(__builtin_nanf("")); }
    static METAL_FUNC constexpr bfloat max() { return bfloat(3.3895313892515355e38f); }
    static METAL_FUNC constexpr bfloat lowest() { return bfloat(-3.3895313892515355e38f); }
    static METAL_FUNC constexpr bfloat min() { return bfloat(1.17549435e-38f); }
    static METAL_FUNC constexpr bfloat epsilon() { return bfloat(0.0078125f); }
};

template <class T> using remove_addrspace_t = T;
template <class... T> using _disjunction = std::disjunction<T...>;
template <class T> using uniform = T;  // the same for all threads of a SIMD-group
template <class T> METAL_FUNC constexpr T make_uniform(T value) { return value; }
template <class T, size_t N> struct array {
    T elements[N];
    METAL_FUNC constexpr T& operator[](size_t i) { return elements[i]; }
    METAL_FUNC constexpr const T& operator[](size_t i) const { return elements[i]; }
    static METAL_FUNC constexpr size_t size() { return N; }
};

using std::bool_constant;
using std::conditional_t;
using std::enable_if;
using std::enable_if_t;
using std::false_type;
using std::integral_constant;
using std::is_convertible_v;
using std::is_empty;
using std::is_integral;
using std::is_unsigned;
using std::is_same;
using std::is_same_v;
using std::is_signed_v;
using std::is_unsigned_v;
using std::make_unsigned_t;
using std::remove_cv_t;
using std::remove_reference_t;
using std::true_type;
using std::void_t;

template <class To, class From> METAL_FUNC To as_type(From value) {
    static_assert(sizeof(To) == sizeof(From), "as_type needs two types of the same size");
    To same;
    __builtin_memcpy(&same, &value, sizeof same);
    return same;
}
}  // namespace metal

using metal::as_type;
using metal::bfloat;
using float16_t = half;
using bfloat16_t = metal::bfloat;

METAL_FUNC constexpr half operator""h(long double value) { return half(float(value)); }
METAL_FUNC constexpr half operator""h(unsigned long long value) { return half(float(value)); }

// Metal's functions of numbers, for one number and for each element of a vector.
#pragma once
#include "vectors.h"

namespace metal {
// Computed in float, and rounded to the type that came. Of an integer the result is a float.
#define METAL_FUNCTION(name, expression)                                                     \
    template <Real T> METAL_FUNC T name(T value) { const float x = value; return T(expression); } \
    template <Integer T> METAL_FUNC float name(T value) { const float x = value; return expression; } \
    template <class T, int N> METAL_FUNC vec<T, N> name(vec<T, N> v) { return each(v, [](T e) { return T(name(e)); }); }
METAL_FUNCTION(exp, ::expf(x))
METAL_FUNCTION(exp2, ::exp2f(x))
METAL_FUNCTION(exp10, ::powf(10.0f, x))
METAL_FUNCTION(log, ::logf(x))
METAL_FUNCTION(log2, ::log2f(x))
METAL_FUNCTION(log10, ::log10f(x))
METAL_FUNCTION(sqrt, ::sqrtf(x))
METAL_FUNCTION(rsqrt, 1.0f / ::sqrtf(x))
METAL_FUNCTION(sin, ::sinf(x))
METAL_FUNCTION(cos, ::cosf(x))
METAL_FUNCTION(tan, ::tanf(x))
METAL_FUNCTION(asin, ::asinf(x))
METAL_FUNCTION(acos, ::acosf(x))
METAL_FUNCTION(atan, ::atanf(x))
METAL_FUNCTION(sinh, ::sinhf(x))
METAL_FUNCTION(cosh, ::coshf(x))
METAL_FUNCTION(tanh, ::tanhf(x))
METAL_FUNCTION(asinh, ::asinhf(x))
METAL_FUNCTION(acosh, ::acoshf(x))
METAL_FUNCTION(atanh, ::atanhf(x))
METAL_FUNCTION(sinpi, ::sinf(3.14159265358979f * x))
METAL_FUNCTION(cospi, ::cosf(3.14159265358979f * x))
METAL_FUNCTION(floor, ::floorf(x))
METAL_FUNCTION(ceil, ::ceilf(x))
METAL_FUNCTION(round, ::roundf(x))
METAL_FUNCTION(rint, ::rintf(x))
METAL_FUNCTION(trunc, ::truncf(x))
METAL_FUNCTION(fract, x - ::floorf(x))
METAL_FUNCTION(fabs, ::fabsf(x))
METAL_FUNCTION(saturate, ::fminf(::fmaxf(x, 0.0f), 1.0f))

// What two arguments are computed in: the type of both, or what C++ makes of them.
template <class A, class B> using both = decltype(A() + B());

#define METAL_FUNCTION_OF_TWO(name, expression)                                              \
    template <Scalar A, Scalar B> METAL_FUNC auto name(A p, B q) {                           \
        using R = conditional_t<is_same_v<A, B>, A, both<A, B>>;                             \
        const float x = p, y = q;                                                            \
        return R(expression);                                                                \
    }                                                                                        \
    template <class T, int N> METAL_FUNC vec<T, N> name(vec<T, N> a, vec<T, N> b) {          \
        for (int i = 0; i < N; ++i) a.at[i] = name(a.at[i], b.at[i]);                        \
        return a;                                                                            \
    }
METAL_FUNCTION_OF_TWO(pow, ::powf(x, y))
METAL_FUNCTION_OF_TWO(powr, ::powf(x, y))
METAL_FUNCTION_OF_TWO(fmod, ::fmodf(x, y))
METAL_FUNCTION_OF_TWO(atan2, ::atan2f(x, y))
METAL_FUNCTION_OF_TWO(copysign, ::copysignf(x, y))
METAL_FUNCTION_OF_TWO(step, y < x ? 0.0f : 1.0f)
METAL_FUNCTION_OF_TWO(fdim, ::fdimf(x, y))
METAL_FUNCTION_OF_TWO(fmax, ::fmaxf(x, y))
METAL_FUNCTION_OF_TWO(fmin, ::fminf(x, y))
METAL_FUNCTION_OF_TWO(ldexp, ::ldexpf(x, int(y)))

// Of two floats the one that is no NaN, as fmax; integers stay integers.
#define METAL_CHOICE(name, f, better)                                                        \
    template <Scalar A, Scalar B> METAL_FUNC auto name(A p, B q) {                           \
        using R = conditional_t<is_same_v<A, B>, A, both<A, B>>;                             \
        if constexpr (Real<R>) return R(f(float(p), float(q)));                              \
        else return R(q) better R(p) ? R(q) : R(p);                                          \
    }                                                                                        \
    template <class T, int N> METAL_FUNC vec<T, N> name(vec<T, N> a, vec<T, N> b) {          \
        for (int i = 0; i < N; ++i) a.at[i] = T(name(a.at[i], b.at[i]));                     \
        return a;                                                                            \
    }                                                                                        \
    template <class T, int N, Scalar S> METAL_FUNC vec<T, N> name(vec<T, N> a, S b) { return name(a, vec<T, N>(T(b))); }
METAL_CHOICE(max, ::fmaxf, >)
METAL_CHOICE(min, ::fminf, <)

template <class A, class B> METAL_FUNC auto max3(A a, B b, A c) { return max(a, max(b, c)); }
template <class A, class B> METAL_FUNC auto min3(A a, B b, A c) { return min(a, min(b, c)); }
template <Scalar T> METAL_FUNC T abs(T x) { return x < T(0) ? T(-x) : x; }
template <class T, int N> METAL_FUNC vec<T, N> abs(vec<T, N> v) { return each(v, [](T e) { return abs(e); }); }
template <class T, class L, class H> METAL_FUNC T clamp(T x, L low, H high) { return T(min(max(x, T(low)), T(high))); }
template <Scalar T> METAL_FUNC T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
template <class T> METAL_FUNC T fma(T a, T b, T c) {
    if constexpr (Scalar<T>) return T(::fmaf(float(a), float(b), float(c)));
    else return a * b + c;
}
template <class T> METAL_FUNC T mad(T a, T b, T c) { return T(a * b + c); }
template <class T, class S> METAL_FUNC T mix(T a, T b, S t) { return T(a + (b - a) * t); }
template <Real T> METAL_FUNC T smoothstep(T low, T high, T x) {
    const T t = clamp((x - low) / (high - low), T(0), T(1));
    return T(t * t * (T(3) - T(2) * t));
}
template <Real T> METAL_FUNC T sincos(T x, T& cosine) { cosine = cos(x); return sin(x); }
template <Real T> METAL_FUNC T modf(T x, T& whole) { whole = trunc(x); return T(x - whole); }
template <class T> METAL_FUNC T select(T a, T b, bool second) { return second ? b : a; }
template <class T, int N> METAL_FUNC vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> second) {
    for (int i = 0; i < N; ++i) if (second.at[i]) a.at[i] = b.at[i];
    return a;
}
template <Real T> METAL_FUNC bool isnan(T x) { return __builtin_isnan(float(x)); }
template <Real T> METAL_FUNC bool isinf(T x) { return __builtin_isinf(float(x)); }
template <Real T> METAL_FUNC bool signbit(T x) { return __builtin_signbit(float(x)); }
template <Real T> METAL_FUNC bool isfinite(T x) { return __builtin_isfinite(float(x)); }

template <class T, int N> METAL_FUNC T dot(vec<T, N> a, vec<T, N> b) {
    T sum = a.at[0] * b.at[0];
    for (int i = 1; i < N; ++i) sum = T(sum + a.at[i] * b.at[i]);
    return sum;
}
template <class T, int N> METAL_FUNC T length_squared(vec<T, N> v) { return dot(v, v); }
template <class T, int N> METAL_FUNC T length(vec<T, N> v) { return sqrt(dot(v, v)); }
template <class T, int N> METAL_FUNC T distance(vec<T, N> a, vec<T, N> b) { return length(a - b); }
template <class T, int N> METAL_FUNC vec<T, N> normalize(vec<T, N> v) { return v / length(v); }
template <class T> METAL_FUNC vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
    return vec<T, 3>(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

template <Integer T> METAL_FUNC T popcount(T x) { return T(__builtin_popcountll(make_unsigned_t<T>(x))); }
template <Integer T> METAL_FUNC T clz(T x) {
    return T(x ? __builtin_clzll(make_unsigned_t<T>(x)) - (64 - 8 * int(sizeof(T))) : 8 * int(sizeof(T)));
}
template <Integer T> METAL_FUNC T ctz(T x) { return T(x ? __builtin_ctzll(make_unsigned_t<T>(x)) : 8 * int(sizeof(T))); }
template <Integer T> METAL_FUNC T extract_bits(T x, uint offset, uint bits) {
    const uint width = 8 * sizeof(T);
    return bits ? T(T(x << (width - bits - offset)) >> (width - bits)) : T(0);
}
template <Integer T> METAL_FUNC T reverse_bits(T x) {
    T r = 0;
    for (uint i = 0; i < 8 * sizeof(T); ++i) r = T(r << 1 | ((x >> i) & 1));
    return r;
}
template <Integer T> METAL_FUNC T rotate(T x, T by) {
    using U = make_unsigned_t<T>;
    const uint width = 8 * sizeof(T), n = uint(by) % width;
    return n ? T(U(x) << n | U(x) >> (width - n)) : x;
}
template <Integer T> METAL_FUNC T mulhi(T a, T b) {
    __extension__ using Wide = conditional_t<is_signed_v<T>, __int128, unsigned __int128>;
    return T(Wide(a) * Wide(b) >> 8 * sizeof(T));
}

// Both are the accurate ones here: what a GPU gives up for speed is not modeled.
namespace precise { using namespace metal; }
namespace fast { using namespace metal; }
}  // namespace metal

// Replaces MLX's headers that overload by address space: complex.h, logging.h, steel/utils/type_traits.h.
#pragma once
#include "functions.h"

template <class T> struct complex_t;
template <class T> constexpr bool is_complex_v = false;
template <class T> constexpr bool is_complex_v<complex_t<T>> = true;
template <class From, class To> constexpr bool is_lane_convertible_v = std::is_convertible_v<From, To>;

template <class T> struct complex_t {
    using value_type = T;
    T real, imag;

    complex_t() = default;  // trivial, as threadgroup memory needs
    METAL_FUNC constexpr complex_t(T r, T i) : real(r), imag(i) {}
    template <metal::Scalar U> METAL_FUNC constexpr complex_t(U r) : real(T(r)), imag(0) {}
    template <class U> METAL_FUNC constexpr complex_t(complex_t<U> z) : real(T(z.real)), imag(T(z.imag)) {}
    METAL_FUNC complex_t(metal::vec<T, 2> v) : real(v.x), imag(v.y) {}
    METAL_FUNC operator metal::vec<T, 2>() const { return metal::vec<T, 2>(real, imag); }
    template <metal::Scalar U> METAL_FUNC constexpr operator U() const { return U(real); }
};
using complex32_t = complex_t<half>;
using complex64_t = complex_t<float>;

// The rest of a division, with the sign of the divisor.
template <class T> METAL_FUNC T floor_rest(T a, T b) {
    const T rest = T(::fmodf(a, b));
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(rest + b) : rest;
}

#define METAL_COMPLEX_OPERATOR(op, REAL, IMAGINARY)                                                          \
    template <class T> METAL_FUNC constexpr complex_t<T> operator op(complex_t<T> a, complex_t<T> b) {       \
        return {T(REAL), T(IMAGINARY)};                                                                      \
    }                                                                                                        \
    template <class T, metal::Scalar U> METAL_FUNC constexpr complex_t<T> operator op(complex_t<T> a, U b) {  \
        return a op complex_t<T>(b);                                                                         \
    }                                                                                                        \
    template <class T, metal::Scalar U> METAL_FUNC constexpr complex_t<T> operator op(U a, complex_t<T> b) {  \
        return complex_t<T>(a) op b;                                                                         \
    }                                                                                                        \
    template <class T> METAL_FUNC constexpr complex_t<T>& operator op##=(complex_t<T>& a, complex_t<T> b) { return a = a op b; }
#define METAL_NORM (b.real * b.real + b.imag * b.imag)
METAL_COMPLEX_OPERATOR(+, a.real + b.real, a.imag + b.imag)
METAL_COMPLEX_OPERATOR(-, a.real - b.real, a.imag - b.imag)
METAL_COMPLEX_OPERATOR(*, a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)
METAL_COMPLEX_OPERATOR(/, (a.real * b.real + a.imag * b.imag) / METAL_NORM, (a.imag * b.real - a.real * b.imag) / METAL_NORM)
METAL_COMPLEX_OPERATOR(%, floor_rest(a.real, b.real), floor_rest(a.imag, b.imag))
template <class T> METAL_FUNC constexpr complex_t<T> operator-(complex_t<T> z) { return {T(-z.real), T(-z.imag)}; }

// In order of the real part, then of the imaginary one.
template <class T> METAL_FUNC constexpr bool operator==(complex_t<T> a, complex_t<T> b) { return a.real == b.real && a.imag == b.imag; }
template <class T> METAL_FUNC constexpr bool operator>(complex_t<T> a, complex_t<T> b) {
    return a.real > b.real || (a.real == b.real && a.imag > b.imag);
}
template <class T> METAL_FUNC constexpr bool operator>=(complex_t<T> a, complex_t<T> b) { return a > b || a == b; }
template <class T> METAL_FUNC constexpr bool operator<(complex_t<T> a, complex_t<T> b) { return b > a; }
template <class T> METAL_FUNC constexpr bool operator<=(complex_t<T> a, complex_t<T> b) { return b >= a; }

namespace mlx {
struct os_log {
    constexpr os_log(const char*, const char*) {}
    template <class... Args> void log_debug(const char*, Args...) const {}
};
}  // namespace mlx

namespace metal {
template <class T> struct pointer_element {};
template <class T> struct pointer_element<T*> { using type = std::remove_cv_t<T>; };
template <class T> using pointer_element_t = typename pointer_element<remove_cv_t<T>>::type;
template <class T> constexpr bool is_empty_v = std::is_empty_v<T>;
template <class T> struct is_static : std::is_empty<remove_cv_t<T>> {};
}  // namespace metal

// Metal's matrices that one thread holds, column by column: float4x3 has 4 columns of 3 elements.
#pragma once
#include "functions.h"

namespace metal {
template <class T, int C, int R> struct matrix {
    vec<T, R> columns[C];

    matrix() = default;
    METAL_FUNC explicit matrix(T diagonal) {
        for (int c = 0; c < C; ++c) {
            columns[c] = vec<T, R>(T(0));
            if (c < R) columns[c][c] = diagonal;
        }
    }
    template <class... V> requires(sizeof...(V) == C && C > 1 && (std::is_convertible_v<V, vec<T, R>> && ...) &&
                                   !(Scalar<V> && ...))
    METAL_FUNC matrix(V... all) : columns{vec<T, R>(all)...} {}
    template <Scalar... S> requires(sizeof...(S) == C * R)
    METAL_FUNC matrix(S... all) {
        const T elements[] = {T(all)...};
        for (int i = 0; i < C * R; ++i) columns[i / R][i % R] = elements[i];
    }
    METAL_FUNC vec<T, R>& operator[](int c) { return columns[c]; }
    METAL_FUNC const vec<T, R>& operator[](int c) const { return columns[c]; }
};

// The matrix whose column number c is `f` of it.
template <class T, int C, int R, class F> METAL_FUNC matrix<T, C, R> by_column(F f) {
    matrix<T, C, R> made;
    for (int c = 0; c < C; ++c) made.columns[c] = f(c);
    return made;
}
#define METAL_MATRIX_SUM(op)                                                                            \
    template <class T, int C, int R> METAL_FUNC matrix<T, C, R> operator op(matrix<T, C, R> a, matrix<T, C, R> b) { \
        return by_column<T, C, R>([&](int c) { return a.columns[c] op b.columns[c]; });                 \
    }                                                                                                   \
    template <class T, int C, int R>                                                                    \
    METAL_FUNC matrix<T, C, R>& operator op##=(matrix<T, C, R>& a, matrix<T, C, R> b) { return a = a op b; }
METAL_MATRIX_SUM(+)
METAL_MATRIX_SUM(-)
template <class T, int C, int R> METAL_FUNC matrix<T, C, R> operator-(matrix<T, C, R> m) {
    return by_column<T, C, R>([&](int c) { return -m.columns[c]; });
}
template <class T, int C, int R, Scalar S> METAL_FUNC matrix<T, C, R> operator*(matrix<T, C, R> m, S s) {
    return by_column<T, C, R>([&](int c) { return m.columns[c] * T(s); });
}
template <class T, int C, int R, Scalar S> METAL_FUNC matrix<T, C, R> operator*(S s, matrix<T, C, R> m) { return m * s; }
template <class T, int C, int R> METAL_FUNC vec<T, R> operator*(matrix<T, C, R> m, vec<T, C> v) {
    vec<T, R> sum = m.columns[0] * v.at[0];
    for (int c = 1; c < C; ++c) sum += m.columns[c] * v.at[c];
    return sum;
}
template <class T, int C, int R> METAL_FUNC vec<T, C> operator*(vec<T, R> v, matrix<T, C, R> m) {
    vec<T, C> made(T(0));
    for (int c = 0; c < C; ++c) made.at[c] = dot(v, m.columns[c]);
    return made;
}
template <class T, int C, int R, int N> METAL_FUNC matrix<T, N, R> operator*(matrix<T, C, R> a, matrix<T, N, C> b) {
    return by_column<T, N, R>([&](int c) { return a * b.columns[c]; });
}
template <class T, int C, int R, class B> METAL_FUNC matrix<T, C, R>& operator*=(matrix<T, C, R>& a, B b) { return a = a * b; }
template <class T, int C, int R> METAL_FUNC bool operator==(matrix<T, C, R> a, matrix<T, C, R> b) {
    for (int c = 0; c < C; ++c) if (!all(a.columns[c] == b.columns[c])) return false;
    return true;
}
template <class T, int C, int R> METAL_FUNC matrix<T, R, C> transpose(matrix<T, C, R> m) {
    matrix<T, R, C> made;
    for (int c = 0; c < C; ++c) for (int r = 0; r < R; ++r) made.columns[r].at[c] = m.columns[c].at[r];
    return made;
}
template <class T> METAL_FUNC T determinant(matrix<T, 2, 2> m) { return m[0].x * m[1].y - m[0].y * m[1].x; }
template <class T> METAL_FUNC T determinant(matrix<T, 3, 3> m) { return dot(m[0], cross(m[1], m[2])); }
template <class T> METAL_FUNC T determinant(matrix<T, 4, 4> m) {
    T sum = T(0);
    for (int c = 0; c < 4; ++c) {
        matrix<T, 3, 3> rest;
        for (int i = 0; i < 3; ++i) rest[i] = vec<T, 3>(m[i + (i >= c)].y, m[i + (i >= c)].z, m[i + (i >= c)].w);
        sum += (c % 2 ? -m[c].x : m[c].x) * determinant(rest);
    }
    return sum;
}
}  // namespace metal

#define METAL_MATRICES_OF(T, R)             \
    using T##2x##R = metal::matrix<T, 2, R>; \
    using T##3x##R = metal::matrix<T, 3, R>; \
    using T##4x##R = metal::matrix<T, 4, R>;
#define METAL_MATRICES(T) METAL_MATRICES_OF(T, 2) METAL_MATRICES_OF(T, 3) METAL_MATRICES_OF(T, 4)
METAL_MATRICES(float)
METAL_MATRICES(half)

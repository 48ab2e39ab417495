// Metal's matrices that one thread holds, column by column: float4x3 has 4 columns of 3 elements.
#pragma once
#include "functions.h"

namespace metal {
template <class T, int C, int R> struct matrix {
    vec<T, R> columns[C];

    matrix() = default;
    METAL_FUNC explicit matrix(T diagonal) {
        for (int c = 0; c < C; ++c) for (int r = 0; r < R; ++r) columns[c][r] = c == r ? diagonal : T(0);
    }
    template <class... V> requires(sizeof...(V) == C && !(Scalar<V> && ...))
    METAL_FUNC matrix(V... all) : columns{vec<T, R>(all)...} {}
    template <Scalar... S> requires(sizeof...(S) == C * R)
    METAL_FUNC matrix(S... all) {
        const T elements[] = {T(all)...};
        for (int i = 0; i < C * R; ++i) columns[i / R][i % R] = elements[i];
    }
    METAL_FUNC vec<T, R>& operator[](int c) { return columns[c]; }
    METAL_FUNC const vec<T, R>& operator[](int c) const { return columns[c]; }
};

#define METAL_OF_MATRIX template <class T, int C, int R> METAL_FUNC
#define METAL_MATRIX_OPERATOR(op)                                                                       \
    METAL_OF_MATRIX matrix<T, C, R> operator op(matrix<T, C, R> a, matrix<T, C, R> b) {                 \
        for (int c = 0; c < C; ++c) a[c] = a[c] op b[c];                                                \
        return a;                                                                                       \
    }
METAL_MATRIX_OPERATOR(+)
METAL_MATRIX_OPERATOR(-)
METAL_OF_MATRIX matrix<T, C, R> operator-(matrix<T, C, R> m) { return matrix<T, C, R>(T(0)) - m; }
template <class T, int C, int R, Scalar S> METAL_FUNC matrix<T, C, R> operator*(matrix<T, C, R> m, S s) {
    for (int c = 0; c < C; ++c) m[c] = m[c] * T(s);
    return m;
}
template <class T, int C, int R, Scalar S> METAL_FUNC matrix<T, C, R> operator*(S s, matrix<T, C, R> m) { return m * s; }
METAL_OF_MATRIX vec<T, R> operator*(matrix<T, C, R> m, vec<T, C> v) {
    vec<T, R> sum = m[0] * v.at[0];
    for (int c = 1; c < C; ++c) sum += m[c] * v.at[c];
    return sum;
}
METAL_OF_MATRIX vec<T, C> operator*(vec<T, R> v, matrix<T, C, R> m) { return transpose(m) * v; }
template <class T, int C, int R, int N> METAL_FUNC matrix<T, N, R> operator*(matrix<T, C, R> a, matrix<T, N, C> b) {
    matrix<T, N, R> product;
    for (int c = 0; c < N; ++c) product[c] = a * b[c];
    return product;
}
template <class T, int C, int R, class B> METAL_FUNC matrix<T, C, R>& operator+=(matrix<T, C, R>& a, B b) { return a = a + b; }
template <class T, int C, int R, class B> METAL_FUNC matrix<T, C, R>& operator-=(matrix<T, C, R>& a, B b) { return a = a - b; }
template <class T, int C, int R, class B> METAL_FUNC matrix<T, C, R>& operator*=(matrix<T, C, R>& a, B b) { return a = a * b; }
METAL_OF_MATRIX bool operator==(matrix<T, C, R> a, matrix<T, C, R> b) {
    for (int c = 0; c < C; ++c) if (!all(a[c] == b[c])) return false;
    return true;
}
METAL_OF_MATRIX matrix<T, R, C> transpose(matrix<T, C, R> m) {
    matrix<T, R, C> made;
    for (int c = 0; c < C; ++c) for (int r = 0; r < R; ++r) made[r][c] = m[c][r];
    return made;
}
// By the first row; of a 4 x 4 matrix the remaining parts are 3 x 3, and so on.
template <class T, int N> METAL_FUNC T determinant(matrix<T, N, N> m) {
    if constexpr (N == 2) return m[0].x * m[1].y - m[0].y * m[1].x;
    else {
        T sum = T(0);
        for (int c = 0; c < N; ++c) {
            matrix<T, N - 1, N - 1> rest;
            for (int i = 0; i < N - 1; ++i) for (int r = 1; r < N; ++r) rest[i][r - 1] = m[i + (i >= c)][r];
            sum += (c % 2 ? -m[c].x : m[c].x) * determinant(rest);
        }
        return sum;
    }
}
}  // namespace metal

#define METAL_MATRICES(T, R) using T##2x##R = metal::matrix<T, 2, R>; \
    using T##3x##R = metal::matrix<T, 3, R>; using T##4x##R = metal::matrix<T, 4, R>;
METAL_MATRICES(float, 2) METAL_MATRICES(float, 3) METAL_MATRICES(float, 4)
METAL_MATRICES(half, 2) METAL_MATRICES(half, 3) METAL_MATRICES(half, 4)

// Metal's vectors: float4 and its like. Copied as one access to memory, as a GPU does.
#pragma once
#include "scalars.h"

namespace metal {
template <class T, int N> struct vec;

template <size_t BYTES> struct bits_of;
template <> struct bits_of<2> { using type = uint16_t; };
template <> struct bits_of<4> { using type = uint32_t; };
template <> struct bits_of<8> { using type = uint64_t; };
template <> struct bits_of<16> { typedef uint32_t type __attribute__((vector_size(16))); };
template <> struct bits_of<32> { struct type { bits_of<16>::type low, high; }; };

// Two of a vector's elements, as a vector: v.xy. A place in the vector itself, which can be assigned to.
template <class T, int A, int B> struct Pair {
    T at[(A > B ? A : B) + 1];
    METAL_FUNC operator vec<T, 2>() const { return vec<T, 2>(at[A], at[B]); }
    METAL_FUNC Pair& operator=(vec<T, 2> v) { at[A] = v.x; at[B] = v.y; return *this; }
    METAL_FUNC Pair& operator=(const Pair& o) { return *this = vec<T, 2>(o); }
};
template <class T, int A, int B, int C> struct Triple {
    T at[4];
    METAL_FUNC operator vec<T, 3>() const { return vec<T, 3>(at[A], at[B], at[C]); }
    METAL_FUNC Triple& operator=(vec<T, 3> v) { at[A] = v.x; at[B] = v.y; at[C] = v.z; return *this; }
    METAL_FUNC Triple& operator=(const Triple& o) { return *this = vec<T, 3>(o); }
};

#define METAL_VECTOR_MEMBERS(N, SIZE)                                                     \
    using element_type = T;                                                               \
    static constexpr int size = N;                                                        \
    vec() = default;                                                                      \
    METAL_FUNC vec(const vec& o) : whole(o.whole) {}                                      \
    METAL_FUNC vec& operator=(const vec& o) { whole = o.whole; return *this; }            \
    METAL_FUNC vec(T value) { for (int i = 0; i < SIZE; ++i) at[i] = value; }             \
    template <class U> METAL_FUNC explicit vec(const vec<U, N>& other) {                  \
        const vec<U, N> o(other);                                                         \
        for (int i = 0; i < N; ++i) at[i] = T(o.at[i]);                                   \
        for (int i = N; i < SIZE; ++i) at[i] = T(0);                                      \
    }                                                                                     \
    METAL_FUNC T& operator[](int i) { return at[i]; }                                     \
    METAL_FUNC const T& operator[](int i) const { return at[i]; }

template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
    union {
        typename bits_of<2 * sizeof(T)>::type whole;
        T at[2];
        struct { T x, y; };
        struct { T r, g; };
        Pair<T, 0, 1> xy;
        Pair<T, 1, 0> yx;
        Pair<T, 0, 0> xx;
        Pair<T, 1, 1> yy;
    };
    METAL_VECTOR_MEMBERS(2, 2)
    METAL_FUNC vec(T a, T b) : at{a, b} {}
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
    union {
        typename bits_of<4 * sizeof(T)>::type whole;
        T at[4];
        struct { T x, y, z; };
        struct { T r, g, b; };
        Pair<T, 0, 1> xy;
        Pair<T, 1, 2> yz;
        Pair<T, 0, 2> xz;
        Triple<T, 0, 1, 2> xyz;
        Triple<T, 2, 1, 0> zyx;
        Triple<T, 1, 2, 0> yzx;
        Triple<T, 2, 0, 1> zxy;
    };
    METAL_VECTOR_MEMBERS(3, 4)
    METAL_FUNC vec(T a, T b, T c) : at{a, b, c, T(0)} {}
    METAL_FUNC vec(vec<T, 2> a, T c) : vec(a.x, a.y, c) {}
    METAL_FUNC vec(T a, vec<T, 2> b) : vec(a, b.x, b.y) {}
};

template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
    union {
        typename bits_of<4 * sizeof(T)>::type whole;
        T at[4];
        struct { T x, y, z, w; };
        struct { T r, g, b, a; };
        Pair<T, 0, 1> xy;
        Pair<T, 2, 3> zw;
        Pair<T, 0, 2> xz;
        Pair<T, 1, 3> yw;
        Pair<T, 1, 2> yz;
        Triple<T, 0, 1, 2> xyz;
        Triple<T, 0, 1, 2> rgb;
        Triple<T, 1, 2, 3> yzw;
    };
    METAL_VECTOR_MEMBERS(4, 4)
    METAL_FUNC vec(T p, T q, T s, T t) : at{p, q, s, t} {}
    METAL_FUNC vec(vec<T, 2> p, vec<T, 2> q) : vec(p.x, p.y, q.x, q.y) {}
    METAL_FUNC vec(vec<T, 2> p, T q, T s) : vec(p.x, p.y, q, s) {}
    METAL_FUNC vec(vec<T, 3> p, T q) : vec(p.x, p.y, p.z, q) {}
    METAL_FUNC vec(T p, vec<T, 3> q) : vec(p, q.x, q.y, q.z) {}
};

// Between vectors, and between a vector and a number.
#define METAL_VECTOR_OPERATOR(op, RESULT)                                                  \
    template <class T, int N> METAL_FUNC vec<RESULT, N> operator op(vec<T, N> a, vec<T, N> b) { \
        vec<RESULT, N> r;                                                                  \
        for (int i = 0; i < N; ++i) r.at[i] = a.at[i] op b.at[i];                          \
        return r;                                                                          \
    }                                                                                      \
    template <class T, int N, Scalar S> METAL_FUNC vec<RESULT, N> operator op(vec<T, N> a, S b) { \
        return a op vec<T, N>(T(b));                                                       \
    }                                                                                      \
    template <class T, int N, Scalar S> METAL_FUNC vec<RESULT, N> operator op(S a, vec<T, N> b) { \
        return vec<T, N>(T(a)) op b;                                                       \
    }
#define METAL_VECTOR_ARITHMETIC(op)                                                        \
    METAL_VECTOR_OPERATOR(op, T)                                                           \
    template <class T, int N, class B> METAL_FUNC vec<T, N>& operator op##=(vec<T, N>& a, B b) { return a = a op b; }
METAL_VECTOR_ARITHMETIC(+)
METAL_VECTOR_ARITHMETIC(-)
METAL_VECTOR_ARITHMETIC(*)
METAL_VECTOR_ARITHMETIC(/)
METAL_VECTOR_ARITHMETIC(%)
METAL_VECTOR_ARITHMETIC(&)
METAL_VECTOR_ARITHMETIC(|)
METAL_VECTOR_ARITHMETIC(^)
METAL_VECTOR_ARITHMETIC(<<)
METAL_VECTOR_ARITHMETIC(>>)
METAL_VECTOR_OPERATOR(==, bool)
METAL_VECTOR_OPERATOR(!=, bool)
METAL_VECTOR_OPERATOR(<, bool)
METAL_VECTOR_OPERATOR(>, bool)
METAL_VECTOR_OPERATOR(<=, bool)
METAL_VECTOR_OPERATOR(>=, bool)
METAL_VECTOR_OPERATOR(&&, bool)
METAL_VECTOR_OPERATOR(||, bool)

// `f` of each element.
template <class T, int N, class F> METAL_FUNC auto each(vec<T, N> v, F f) {
    vec<decltype(f(v.at[0])), N> r;
    for (int i = 0; i < N; ++i) r.at[i] = f(v.at[i]);
    return r;
}
template <class T, int N> METAL_FUNC vec<T, N> operator-(vec<T, N> v) { return each(v, [](T e) { return T(-e); }); }
template <class T, int N> METAL_FUNC vec<T, N> operator~(vec<T, N> v) { return each(v, [](T e) { return T(~e); }); }
template <int N> METAL_FUNC vec<bool, N> operator!(vec<bool, N> v) { return each(v, [](bool e) { return !e; }); }
template <int N> METAL_FUNC bool any(vec<bool, N> v) { bool r = false; for (bool e : v.at) r |= e; return r; }
template <int N> METAL_FUNC bool all(vec<bool, N> v) { for (int i = 0; i < N; ++i) if (!v.at[i]) return false; return true; }

// Without the alignment of a vector: three numbers, one after another.
template <class T, int N> struct packed_vec {
    T at[N];
    packed_vec() = default;
    METAL_FUNC packed_vec(vec<T, N> v) { for (int i = 0; i < N; ++i) at[i] = v.at[i]; }
    METAL_FUNC operator vec<T, N>() const { vec<T, N> v(T(0)); for (int i = 0; i < N; ++i) v.at[i] = at[i]; return v; }
    METAL_FUNC T& operator[](int i) { return at[i]; }
    METAL_FUNC const T& operator[](int i) const { return at[i]; }
};
}  // namespace metal

using metal::vec;
#define METAL_VECTORS(T)       \
    using T##2 = metal::vec<T, 2>; \
    using T##3 = metal::vec<T, 3>; \
    using T##4 = metal::vec<T, 4>; \
    using packed_##T##2 = metal::packed_vec<T, 2>; \
    using packed_##T##3 = metal::packed_vec<T, 3>; \
    using packed_##T##4 = metal::packed_vec<T, 4>;
METAL_VECTORS(bool)
METAL_VECTORS(char)
METAL_VECTORS(uchar)
METAL_VECTORS(short)
METAL_VECTORS(ushort)
METAL_VECTORS(int)
METAL_VECTORS(uint)
METAL_VECTORS(long)
METAL_VECTORS(ulong)
METAL_VECTORS(half)
METAL_VECTORS(float)
METAL_VECTORS(bfloat)

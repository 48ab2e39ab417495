// Matrices of 8 x 8 that a SIMD-group holds together, two elements a lane.
#pragma once
#include "simd.h"

namespace metal {
template <class T, int ROWS = 8, int COLUMNS = 8> struct simdgroup_matrix {
    static_assert(ROWS == 8 && COLUMNS == 8, "a SIMD-group's matrices are 8 x 8");
    using storage_type = vec<T, 2>;
    vec<T, 2> elements;

    simdgroup_matrix() = default;
    METAL_FUNC explicit simdgroup_matrix(T diagonal) {
        const uint2 here = first_of(simulator_lane());
        elements = vec<T, 2>(here.x == here.y ? diagonal : T(0), here.x + 1 == here.y ? diagonal : T(0));
    }
    METAL_FUNC vec<T, 2>& thread_elements() { return elements; }
    METAL_FUNC const vec<T, 2>& thread_elements() const { return elements; }

    // Column and row of a lane's first element; the second is beside it. So Apple's GPUs do it, and MLX counts on it.
    static METAL_FUNC uint2 first_of(uint lane) {
        const uint quad = lane / 4;
        return uint2((quad & 2) * 2 + lane % 2 * 2, (quad & 4) + lane / 2 % 4);
    }
    // The lane that holds the elements of this row from this even column.
    static METAL_FUNC uint lane_of(uint column, uint row) {
        return (column / 4 * 2 + row / 4 * 4) * 4 + row % 4 * 2 + column / 2 % 2;
    }
};
template <class T, int R = 8, int C = 8> METAL_FUNC simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T value) {
    simdgroup_matrix<T, R, C> matrix;
    matrix.elements = vec<T, 2>(value);
    return matrix;
}

// `columns` is how far two rows lie apart in memory; `origin` is column and row of the matrix's corner there.
template <class T, class P>
METAL_FUNC void simdgroup_load(simdgroup_matrix<T>& m, const P* p, ulong columns = 8, ulong2 origin = ulong2(0),
                               bool transposed = false, METAL_HERE) {
    const auto all = simulator_meet(&columns, 1, true, "simdgroup_load", at);
    const uint2 here = m.first_of(all.lane);
    const ulong x = origin.x + (transposed ? here.y : here.x), y = origin.y + (transposed ? here.x : here.y);
    const ulong next = transposed ? columns : 1;
    const ulong first = y * columns + x;
    m.elements = vec<T, 2>(T(p[first]), T(p[first + next]));
}
template <class T, class P>
METAL_FUNC void simdgroup_store(const simdgroup_matrix<T>& m, P* p, ulong columns = 8, ulong2 origin = ulong2(0),
                                bool transposed = false, METAL_HERE) {
    const auto all = simulator_meet(&columns, 1, true, "simdgroup_store", at);
    const uint2 here = m.first_of(all.lane);
    const ulong x = origin.x + (transposed ? here.y : here.x), y = origin.y + (transposed ? here.x : here.y);
    const ulong next = transposed ? columns : 1;
    const ulong first = y * columns + x;
    p[first] = P(m.elements.x);
    p[first + next] = P(m.elements.y);
}

template <class A, class B> struct Factors { vec<A, 2> a; vec<B, 2> b; };

// Two elements of the product of what the lanes have brought, summed in float.
template <class A, class B> METAL_UNWATCHED float2 product(simulator::Meeting all) {
    const uint2 here = simdgroup_matrix<A>::first_of(all.lane);
    float2 sum(0.0f);
    for (uint k = 0; k < 8; ++k) {
        const auto left = of_lane<Factors<A, B>>(all, simdgroup_matrix<A>::lane_of(k, here.y));
        const auto right = of_lane<Factors<A, B>>(all, simdgroup_matrix<B>::lane_of(here.x, k));
        const float a = float(k % 2 ? left.a.y : left.a.x);
        sum.x += a * float(right.b.x);
        sum.y += a * float(right.b.y);
    }
    return sum;
}
template <class D, class A, class B, class C>
METAL_FUNC void simdgroup_multiply_accumulate(simdgroup_matrix<D>& d, simdgroup_matrix<A> a, simdgroup_matrix<B> b,
                                              simdgroup_matrix<C> c, METAL_HERE) {
    const Factors<A, B> mine{a.elements, b.elements};
    const float2 sum = product<A, B>(simulator_meet(&mine, sizeof mine, true, "simdgroup_multiply_accumulate", at));
    d.elements = vec<D, 2>(D(float(c.elements.x) + sum.x), D(float(c.elements.y) + sum.y));
}
template <class D, class A, class B>
METAL_FUNC void simdgroup_multiply(simdgroup_matrix<D>& d, simdgroup_matrix<A> a, simdgroup_matrix<B> b, METAL_HERE) {
    const Factors<A, B> mine{a.elements, b.elements};
    const float2 sum = product<A, B>(simulator_meet(&mine, sizeof mine, true, "simdgroup_multiply", at));
    d.elements = vec<D, 2>(D(sum.x), D(sum.y));
}
template <class A, class B>
METAL_FUNC simdgroup_matrix<A> operator*(simdgroup_matrix<A> a, simdgroup_matrix<B> b) {
    simdgroup_matrix<A> d;
    simdgroup_multiply(d, a, b);
    return d;
}
}  // namespace metal

using simdgroup_float8x8 = metal::simdgroup_matrix<float>;
using simdgroup_half8x8 = metal::simdgroup_matrix<half>;
using simdgroup_bfloat8x8 = metal::simdgroup_matrix<bfloat>;

// Stands for utils.h, which MLX puts before every kernel, unless a kernel includes that file itself.
template <class T> struct Limits {
    using Own = metal::numeric_limits<T>;
    static METAL_FUNC constexpr T largest() {
        if constexpr (metal::is_floating_point_v<T>) return Own::infinity();
        else return Own::max();
    }
    static METAL_FUNC constexpr T smallest() {
        if constexpr (metal::is_floating_point_v<T>) return T(-float(Own::infinity()));
        else return Own::min();
    }
    static constexpr T max = largest();
    static constexpr T min = smallest();
    static constexpr T finite_max = Own::max();
    static constexpr T finite_min = Own::lowest();
};

// Where an element lies whose number is `elem` in the order of rows.
template <class I = int64_t>
METAL_FUNC I elem_to_loc(I elem, const int* shape, const int64_t* strides, int ndim) {
    I place = 0;
    for (int i = ndim - 1; i >= 0 && elem > 0; --i) {
        place += elem % shape[i] * I(strides[i]);
        elem /= shape[i];
    }
    return place;
}
METAL_FUNC int64_t elem_to_loc(uint elem, const int* shape, const int64_t* strides, int ndim) {
    return elem_to_loc<int64_t>(int64_t(elem), shape, strides, ndim);
}
METAL_FUNC int64_t elem_to_loc_1(uint elem, const int64_t& stride) { return elem * stride; }
METAL_FUNC int64_t elem_to_loc_2(uint2 elem, const int64_t strides[2]) { return elem.x * strides[1] + elem.y * strides[0]; }
METAL_FUNC int64_t elem_to_loc_3(uint3 elem, const int64_t strides[3]) {
    return elem.x * strides[2] + elem.y * strides[1] + elem.z * strides[0];
}
template <class T, class U> METAL_FUNC constexpr T ceildiv(T a, U b) { return (a + b - 1) / b; }
template <class T> METAL_FUNC T log1p(T x) { return T(::log1pf(float(x))); }
template <class T> METAL_FUNC T expm1(T x) { return T(::expm1f(float(x))); }

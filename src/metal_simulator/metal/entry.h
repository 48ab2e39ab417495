// Calls a kernel of a whole file, whose parameters are known by their text alone.
#pragma once
#include "simd.h"

namespace simulator {
// A buffer, which converts to a pointer or a reference of the type that the parameter declares.
struct Pointer {
    void* at;
    template <class T> METAL_FUNC operator T*() const { return static_cast<T*>(at); }
};
struct Reference {
    void* at;
    template <class T> METAL_FUNC operator T&() const { return *static_cast<T*>(at); }
};

template <int I, class First, class... Rest> struct nth : nth<I - 1, Rest...> {};
template <class First, class... Rest> struct nth<0, First, Rest...> { using type = First; };
template <int I, class F> struct argument;
template <int I, class... A> struct argument<I, void (*)(A...)> : nth<I, A...> {};
// The type that parameter number I of a function points to.
template <int I, class F> using Element = std::remove_pointer_t<typename argument<I, F>::type>;
}  // namespace simulator

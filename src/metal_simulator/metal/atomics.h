// Atomic operations. Threads run one at a time here, so a plain operation is atomic; the runtime gets its kind.
#pragma once
#include "simd.h"

namespace metal {
enum memory_order { memory_order_relaxed };
template <class T> struct atomic { T value; };

template <class T, class F> METAL_UNWATCHED T change(const volatile atomic<T>* object, F f, bool reads = true) {
    T* place = const_cast<T*>(&object->value);
    simulator_atomic(place, sizeof(T), reads, __builtin_return_address(0));
    const T before = *place;
    *place = f(before);
    return before;
}

template <class T> METAL_FUNC T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
    return change(object, [](T before) { return before; });
}
template <class T> METAL_FUNC void atomic_store_explicit(volatile atomic<T>* object, std::type_identity_t<T> value, memory_order) {
    change(object, [value](T) { return value; }, false);
}
#define METAL_ATOMIC(name, expression)                                                                       \
    template <class T>                                                                                       \
    METAL_FUNC T atomic_##name##_explicit(volatile atomic<T>* object, std::type_identity_t<T> value, memory_order) { \
        return change(object, [value](T before) { return T(expression); });                                  \
    }
METAL_ATOMIC(exchange, ((void)before, value))
METAL_ATOMIC(fetch_add, before + value)
METAL_ATOMIC(fetch_sub, before - value)
METAL_ATOMIC(fetch_max, metal::max(before, value))
METAL_ATOMIC(fetch_min, metal::min(before, value))
METAL_ATOMIC(fetch_and, before & value)
METAL_ATOMIC(fetch_or, before | value)
METAL_ATOMIC(fetch_xor, before ^ value)

template <class T>
METAL_FUNC bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* object, T* expected, std::type_identity_t<T> desired,
                                                      memory_order, memory_order) {
    const T wanted = *expected;
    const T before = change(object, [wanted, desired](T now) { return now == wanted ? desired : now; });
    *expected = before;
    return before == wanted;
}
}  // namespace metal

using atomic_uint = metal::atomic<uint>;
using atomic_int = metal::atomic<int>;
using atomic_float = metal::atomic<float>;
using atomic_ulong = metal::atomic<ulong>;
using atomic_bool = metal::atomic<bool>;

// Barriers, and what the threads of a SIMD-group do together.
#pragma once
#include "../runtime/interface.h"
#include "functions.h"

// Code that is not watched: it reads what the runtime keeps.
#define METAL_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#define METAL_HERE simulator::Place at = simulator::Place::here()

namespace metal {
enum class mem_flags : uint32_t {
    mem_none = simulator::NO_MEMORY,
    mem_device = simulator::DEVICE_MEMORY,
    mem_threadgroup = simulator::THREADGROUP_MEMORY,
    mem_texture = 4,
    mem_threadgroup_imageblock = 8,
};
METAL_FUNC constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint32_t(a) | uint32_t(b)); }

METAL_FUNC void threadgroup_barrier(mem_flags memory, METAL_HERE) { simulator_barrier(uint32_t(memory), at); }
METAL_FUNC void simdgroup_barrier(mem_flags, METAL_HERE) {
    const char nothing = 0;
    simulator_meet(&nothing, 1, false, "simdgroup_barrier", at);
}

// What one lane has brought.
template <class T> METAL_UNWATCHED T of_lane(simulator::Meeting all, uint32_t lane) {
    T value;
    __builtin_memcpy(&value, all.brought->of[lane % simulator::LANES].bytes, sizeof value);
    return value;
}
METAL_FUNC bool takes_part(simulator::Meeting all, uint32_t lane) { return all.active >> lane & 1; }

template <class T> METAL_FUNC simulator::Meeting meet(const T& value, const char* operation, simulator::Place at) {
    static_assert(sizeof(T) <= 64, "a SIMD-group exchanges at most 64 bytes a thread");
    return simulator_meet(&value, sizeof value, false, operation, at);
}

// `f` over the lanes from `first` to before `end` that take part; `start` if none does.
template <class T, class F> METAL_UNWATCHED T fold(simulator::Meeting all, uint32_t first, uint32_t end, T start, F f) {
    bool begun = false;
    T result = start;
    for (uint32_t i = first; i < end; ++i) {
        if (!(all.active >> i & 1)) continue;
        const T value = of_lane<T>(all, i);
        result = begun ? T(f(result, value)) : value;
        begun = true;
    }
    return result;
}

#define METAL_REDUCTION(name, f)                                                                         \
    template <class T> METAL_FUNC T simd_##name(T value, METAL_HERE) {                                   \
        return fold(meet(value, "simd_" #name, at), 0, simulator::LANES, value, [](T a, T b) { return T(f); }); \
    }                                                                                                    \
    template <class T> METAL_FUNC T quad_##name(T value, METAL_HERE) {                                   \
        const auto all = meet(value, "quad_" #name, at);                                                \
        const uint32_t first = all.lane & ~3u;                                                          \
        return fold(all, first, first + 4, value, [](T a, T b) { return T(f); });                        \
    }
METAL_REDUCTION(sum, a + b)
METAL_REDUCTION(product, a * b)
METAL_REDUCTION(max, metal::max(a, b))
METAL_REDUCTION(min, metal::min(a, b))
METAL_REDUCTION(and, a & b)
METAL_REDUCTION(or, a | b)
METAL_REDUCTION(xor, a ^ b)

#define METAL_PREFIX(name, identity, f)                                                                  \
    template <class T> METAL_FUNC T simd_prefix_inclusive_##name(T value, METAL_HERE) {                  \
        const auto all = meet(value, "simd_prefix_inclusive_" #name, at);                               \
        return fold(all, 0, all.lane + 1, T(identity), [](T a, T b) { return T(f); });                  \
    }                                                                                                    \
    template <class T> METAL_FUNC T simd_prefix_exclusive_##name(T value, METAL_HERE) {                  \
        const auto all = meet(value, "simd_prefix_exclusive_" #name, at);                               \
        return fold(all, 0, all.lane, T(identity), [](T a, T b) { return T(f); });                      \
    }
METAL_PREFIX(sum, 0, a + b)
METAL_PREFIX(product, 1, a * b)

// From another lane. What a lane gives that does not take part is all ones: NaN, if it is a float.
template <class T> METAL_FUNC T simd_broadcast(T value, ushort lane, METAL_HERE) {
    return of_lane<T>(meet(value, "simd_broadcast", at), lane);
}
template <class T> METAL_FUNC T simd_shuffle(T value, ushort lane, METAL_HERE) {
    return of_lane<T>(meet(value, "simd_shuffle", at), lane);
}
template <class T> METAL_FUNC T simd_shuffle_xor(T value, ushort mask, METAL_HERE) {
    const auto all = meet(value, "simd_shuffle_xor", at);
    return of_lane<T>(all, all.lane ^ mask);
}
template <class T> METAL_FUNC T simd_shuffle_down(T value, ushort by, METAL_HERE) {
    const auto all = meet(value, "simd_shuffle_down", at);
    return all.lane + by < simulator::LANES ? of_lane<T>(all, all.lane + by) : value;
}
template <class T> METAL_FUNC T simd_shuffle_up(T value, ushort by, METAL_HERE) {
    const auto all = meet(value, "simd_shuffle_up", at);
    return all.lane >= by ? of_lane<T>(all, all.lane - by) : value;
}
template <class T> METAL_FUNC T simd_shuffle_rotate_down(T value, ushort by, METAL_HERE) {
    const auto all = meet(value, "simd_shuffle_rotate_down", at);
    return of_lane<T>(all, all.lane + by);
}
template <class T> METAL_FUNC T simd_shuffle_rotate_up(T value, ushort by, METAL_HERE) {
    const auto all = meet(value, "simd_shuffle_rotate_up", at);
    return of_lane<T>(all, all.lane - by);
}
template <class T> METAL_FUNC T simd_shuffle_and_fill_down(T value, T filling, ushort by, METAL_HERE) {
    struct Two { T value, filling; } two{value, filling};
    const auto all = meet(two, "simd_shuffle_and_fill_down", at);
    const uint32_t from = all.lane + by;
    const Two there = of_lane<Two>(all, from);
    return from < simulator::LANES ? there.value : there.filling;
}
template <class T> METAL_FUNC T simd_shuffle_and_fill_up(T value, T filling, ushort by, METAL_HERE) {
    struct Two { T value, filling; } two{value, filling};
    const auto all = meet(two, "simd_shuffle_and_fill_up", at);
    const Two there = of_lane<Two>(all, all.lane - by);
    return all.lane >= by ? there.value : there.filling;
}
template <class T> METAL_FUNC T simd_broadcast_first(T value, METAL_HERE) {
    const auto all = meet(value, "simd_broadcast_first", at);
    return of_lane<T>(all, __builtin_ctz(all.active));
}
template <class T> METAL_FUNC T quad_broadcast(T value, ushort lane, METAL_HERE) {
    const auto all = meet(value, "quad_broadcast", at);
    return of_lane<T>(all, (all.lane & ~3u) + lane % 4);
}
template <class T> METAL_FUNC T quad_shuffle(T value, ushort lane, METAL_HERE) {
    const auto all = meet(value, "quad_shuffle", at);
    return of_lane<T>(all, (all.lane & ~3u) + lane % 4);
}
template <class T> METAL_FUNC T quad_shuffle_xor(T value, ushort mask, METAL_HERE) {
    const auto all = meet(value, "quad_shuffle_xor", at);
    return of_lane<T>(all, all.lane ^ (mask & 3));
}
template <class T> METAL_FUNC T quad_shuffle_down(T value, ushort by, METAL_HERE) {
    const auto all = meet(value, "quad_shuffle_down", at);
    return (all.lane & 3) + by < 4 ? of_lane<T>(all, all.lane + by) : value;
}
template <class T> METAL_FUNC T quad_shuffle_up(T value, ushort by, METAL_HERE) {
    const auto all = meet(value, "quad_shuffle_up", at);
    return (all.lane & 3) >= by ? of_lane<T>(all, all.lane - by) : value;
}

struct simd_vote {
    using vote_t = uint64_t;
    vote_t votes;
    uint32_t active;
    explicit operator vote_t() const { return votes; }
    METAL_FUNC bool all() const { return votes == active; }
    METAL_FUNC bool any() const { return votes; }
};
METAL_FUNC simd_vote simd_ballot(bool vote, METAL_HERE) {
    const auto all = meet(vote, "simd_ballot", at);
    simd_vote votes{0, all.active};
    for (uint32_t i = 0; i < simulator::LANES; ++i)
        if (takes_part(all, i) && of_lane<bool>(all, i)) votes.votes |= uint64_t(1) << i;
    return votes;
}
METAL_FUNC bool simd_any(bool vote, METAL_HERE) { return simd_ballot(vote, at).any(); }
METAL_FUNC bool simd_all(bool vote, METAL_HERE) { return simd_ballot(vote, at).all(); }
METAL_FUNC bool simd_is_first(METAL_HERE) {
    const auto all = meet(char(0), "simd_is_first", at);
    return all.lane == uint32_t(__builtin_ctz(all.active));
}
METAL_FUNC simd_vote simd_active_threads_mask(METAL_HERE) { return simd_ballot(true, at); }
}  // namespace metal

using metal::mem_flags;

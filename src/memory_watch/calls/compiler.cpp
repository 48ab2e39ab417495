// The functions that a compiler calls under -fsanitize=thread, before each access to memory.
//
// ThreadSanitizer's own library is not used: it knows of threads, and nothing of buffers, chunks, barriers and lanes.
#include <cstddef>
#include <cstdint>

#include "access.h"

#define HERE __builtin_return_address(0)
#define SHOWN __attribute__((visibility("default")))
// Keeps a compiler from making of a loop a call of the very function that the loop stands in.
#define ONE_BY_ONE asm volatile("" ::: "memory")

void* copied(void* to, const void* from, size_t bytes, const void* at) {
    touch(from, bytes, READ, at);
    touch(to, bytes, WRITE, at);
    auto t = static_cast<char*>(to);
    auto f = static_cast<const char*>(from);
    const bool back = t > f;
    for (size_t i = 0; i < bytes; ++i) {
        const size_t j = back ? bytes - 1 - i : i;
        t[j] = f[j];
        ONE_BY_ONE;
    }
    return to;
}

void* filled(void* to, const void* pattern, size_t length, size_t bytes, const void* at) {
    touch(to, bytes, WRITE, at);
    for (size_t i = 0; i < bytes; ++i) {
        static_cast<char*>(to)[i] = static_cast<const char*>(pattern)[i % length];
        ONE_BY_ONE;
    }
    return to;
}

extern "C" {
SHOWN void __tsan_init() {}
SHOWN void __tsan_func_entry(void* caller) { enter(caller); }
SHOWN void __tsan_func_exit() { leave(); }
SHOWN void __tsan_ignore_thread_begin() {}
SHOWN void __tsan_ignore_thread_end() {}
SHOWN void __tsan_vptr_update(void* p, void*) { touch(p, sizeof p, WRITE, HERE); }
SHOWN void __tsan_vptr_read(void* p) { touch(p, sizeof p, READ, HERE); }
SHOWN void __tsan_read_range(void* p, size_t n) { touch(p, n, READ, HERE); }
SHOWN void __tsan_write_range(void* p, size_t n) { touch(p, n, WRITE, HERE); }

#define SIZE(N)                                                                                     \
    SHOWN void __tsan_read##N(void* p) { touch_aligned(p, N, READ, HERE); }                         \
    SHOWN void __tsan_write##N(void* p) { touch_aligned(p, N, WRITE, HERE); }                       \
    SHOWN void __tsan_unaligned_read##N(void* p) { touch(p, N, READ, HERE); }                       \
    SHOWN void __tsan_unaligned_write##N(void* p) { touch(p, N, WRITE, HERE); }                     \
    SHOWN void __tsan_volatile_read##N(void* p) { touch(p, N, READ, HERE); }                        \
    SHOWN void __tsan_volatile_write##N(void* p) { touch(p, N, WRITE, HERE); }                      \
    SHOWN void __tsan_unaligned_volatile_read##N(void* p) { touch(p, N, READ, HERE); }              \
    SHOWN void __tsan_unaligned_volatile_write##N(void* p) { touch(p, N, WRITE, HERE); }            \
    SHOWN void __tsan_read_write##N(void* p) { touch(p, N, READ, HERE), touch(p, N, WRITE, HERE); } \
    SHOWN void __tsan_unaligned_read_write##N(void* p) { touch(p, N, READ, HERE), touch(p, N, WRITE, HERE); }
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

#define ATOMICS(BITS, T)                                                                            \
    SHOWN T __tsan_atomic##BITS##_load(const volatile T* p, int) {                                  \
        touch(const_cast<T*>(p), sizeof(T), ATOMIC, HERE);                                          \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                \
    }                                                                                               \
    SHOWN void __tsan_atomic##BITS##_store(volatile T* p, T v, int) {                               \
        touch(const_cast<T*>(p), sizeof(T), ATOMIC, HERE);                                          \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                               \
    SHOWN int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* p, T* had, T v, int, int) { \
        touch(const_cast<T*>(p), sizeof(T), ATOMIC, HERE);                                          \
        return __atomic_compare_exchange_n(p, had, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
    }                                                                                               \
    SHOWN int __tsan_atomic##BITS##_compare_exchange_weak(volatile T* p, T* had, T v, int, int) {   \
        touch(const_cast<T*>(p), sizeof(T), ATOMIC, HERE);                                          \
        return __atomic_compare_exchange_n(p, had, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
    }                                                                                               \
    SHOWN T __tsan_atomic##BITS##_compare_exchange_val(volatile T* p, T had, T v, int, int) {       \
        touch(const_cast<T*>(p), sizeof(T), ATOMIC, HERE);                                          \
        __atomic_compare_exchange_n(p, &had, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
        return had;                                                                                 \
    }                                                                                               \
    CHANGE(BITS, T, exchange, __atomic_exchange_n)                                                  \
    CHANGE(BITS, T, fetch_add, __atomic_fetch_add)                                                  \
    CHANGE(BITS, T, fetch_sub, __atomic_fetch_sub)                                                  \
    CHANGE(BITS, T, fetch_and, __atomic_fetch_and)                                                  \
    CHANGE(BITS, T, fetch_or, __atomic_fetch_or)                                                    \
    CHANGE(BITS, T, fetch_xor, __atomic_fetch_xor)
#define CHANGE(BITS, T, name, does)                                 \
    SHOWN T __tsan_atomic##BITS##_##name(volatile T* p, T v, int) { \
        touch(const_cast<T*>(p), sizeof(T), ATOMIC, HERE);          \
        return does(p, v, __ATOMIC_SEQ_CST);                        \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
SHOWN void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
SHOWN void __tsan_atomic_signal_fence(int) {}

// Copies of structures: Clang calls these, GCC the ranges above.
SHOWN void* __tsan_memcpy(void* to, const void* from, size_t bytes) { return copied(to, from, bytes, HERE); }
SHOWN void* __tsan_memmove(void* to, const void* from, size_t bytes) { return copied(to, from, bytes, HERE); }
SHOWN void* __tsan_memset(void* to, int byte, size_t bytes) {
    const char pattern = char(byte);
    return filled(to, &pattern, 1, bytes, HERE);
}
}

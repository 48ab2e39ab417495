// The functions that a compiler calls under -fsanitize=thread, before each access to memory, and their kin.
//
// ThreadSanitizer's own library is not used: it knows of threads, and nothing of buffers, barriers and lanes.
#include <cstddef>
#include <cstdint>

#include "access.h"
#include "steps.h"

#define HERE __builtin_return_address(0)
#define SHOWN __attribute__((visibility("default")))

extern "C" {
SHOWN void __tsan_init() {}
SHOWN void __tsan_func_entry(void* caller) { enter(caller); }
SHOWN void __tsan_func_exit() { leave(); }
SHOWN void __tsan_vptr_update(void* p, void*) { touch(p, sizeof p, WRITE, HERE); }
SHOWN void __tsan_vptr_read(void* p) { touch(p, sizeof p, READ, HERE); }
SHOWN void __tsan_read_range(void* p, size_t n) { touch(p, n, READ, HERE); }
SHOWN void __tsan_write_range(void* p, size_t n) { touch(p, n, WRITE, HERE); }

#define SIZE(N)                                                                          \
    SHOWN void __tsan_read##N(void* p) { touch_aligned(p, N, READ, HERE); }                      \
    SHOWN void __tsan_write##N(void* p) { touch_aligned(p, N, WRITE, HERE); }                    \
    SHOWN void __tsan_unaligned_read##N(void* p) { touch(p, N, READ, HERE); }            \
    SHOWN void __tsan_unaligned_write##N(void* p) { touch(p, N, WRITE, HERE); }          \
    SHOWN void __tsan_volatile_read##N(void* p) { touch(p, N, READ, HERE); }             \
    SHOWN void __tsan_volatile_write##N(void* p) { touch(p, N, WRITE, HERE); }           \
    SHOWN void __tsan_unaligned_volatile_read##N(void* p) { touch(p, N, READ, HERE); }   \
    SHOWN void __tsan_unaligned_volatile_write##N(void* p) { touch(p, N, WRITE, HERE); } \
    SHOWN void __tsan_read_write##N(void* p) { touch(p, N, READ, HERE), touch(p, N, WRITE, HERE); } \
    SHOWN void __tsan_unaligned_read_write##N(void* p) { touch(p, N, READ, HERE), touch(p, N, WRITE, HERE); }
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

// Copies of structures: Clang calls these, GCC the ranges above.
SHOWN void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    touch(from, bytes, READ, HERE);
    touch(to, bytes, WRITE, HERE);
    return __builtin_memmove(to, from, bytes);
}
SHOWN void* __tsan_memmove(void* to, const void* from, size_t bytes) {
    touch(from, bytes, READ, HERE);
    touch(to, bytes, WRITE, HERE);
    return __builtin_memmove(to, from, bytes);
}
SHOWN void* __tsan_memset(void* to, int byte, size_t bytes) {
    touch(to, bytes, WRITE, HERE);
    return __builtin_memset(to, byte, bytes);
}

// Under -fsanitize=integer-divide-by-zero.
SHOWN void __ubsan_handle_divrem_overflow(void*, uintptr_t, uintptr_t) { divided_by_zero(HERE); }

// Under -fsanitize=bounds, which knows how large a variable is that is an array.
struct Type {
    uint16_t kind, info;  // of an integer, the lowest bit of `info` says whether it has a sign
    char name[1];
};
struct OutOfBounds {
    const char* file;
    uint32_t line, column;
    const Type *array, *index;
};
SHOWN void __ubsan_handle_out_of_bounds(OutOfBounds* what, uintptr_t index) {
    const bool narrow = what->index->kind == 0 && what->index->info >> 1 == 5;  // 2 to the 5th: an int
    const int64_t value = narrow && what->index->info & 1 ? int32_t(index) : int64_t(index);
    outside_array(what->array->name, value, {what->file, int32_t(what->line)});
}
}

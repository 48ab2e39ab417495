// What stands in for the C library in watched code: its allocator, so that blocks are known, and what it copies and fills.
#include <cstdlib>
#include <cstring>
#include <new>

#include "access.h"
#include "memory.h"

#define HERE __builtin_return_address(0)

namespace {
void* took(void* memory, size_t bytes) {
    if (memory && !in_runtime) add_own(memory, bytes);
    return memory;
}

void gave(void* memory) {
    if (memory && !in_runtime) drop_own(memory);
    std::free(memory);
}

void* allocated(size_t bytes) {
    return took(std::malloc(bytes + NEAR), bytes);
}

void* aligned(size_t alignment, size_t bytes) {
    void* memory = nullptr;
    if (alignment < sizeof(void*)) alignment = sizeof(void*);
    return posix_memalign(&memory, alignment, bytes + NEAR) ? nullptr : took(memory, bytes);
}

void* or_throw(void* memory) {
    if (!memory) throw std::bad_alloc();
    return memory;
}
}  // namespace

extern "C" {
void* watch_malloc(size_t bytes) { return allocated(bytes); }
void* watch_aligned_alloc(size_t alignment, size_t bytes) { return aligned(alignment, bytes); }
void watch_free(void* memory) { gave(memory); }

void* watch_calloc(size_t count, size_t bytes) {
    void* memory = allocated(count * bytes);
    if (memory) std::memset(memory, 0, count * bytes);
    return memory;
}

void* watch_realloc(void* memory, size_t bytes) {
    Block* old = memory ? block_at(memory) : nullptr;
    if (memory && !old) return std::realloc(memory, bytes);
    void* longer = allocated(bytes);
    if (longer && old) std::memcpy(longer, memory, old->bytes < bytes ? old->bytes : bytes);
    gave(memory);
    return longer;
}
}

void* operator new(size_t bytes) { return or_throw(allocated(bytes)); }
void* operator new[](size_t bytes) { return or_throw(allocated(bytes)); }
void* operator new(size_t bytes, std::align_val_t by) { return or_throw(aligned(size_t(by), bytes)); }
void* operator new[](size_t bytes, std::align_val_t by) { return or_throw(aligned(size_t(by), bytes)); }
void operator delete(void* memory) noexcept { gave(memory); }
void operator delete[](void* memory) noexcept { gave(memory); }
void operator delete(void* memory, size_t) noexcept { gave(memory); }
void operator delete[](void* memory, size_t) noexcept { gave(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { gave(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { gave(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { gave(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { gave(memory); }

extern "C" {
void* memcpy(void* to, const void* from, size_t bytes) { return copied(to, from, bytes, HERE); }
void* memmove(void* to, const void* from, size_t bytes) { return copied(to, from, bytes, HERE); }
void* memset(void* to, int byte, size_t bytes) {
    const char pattern = char(byte);
    return filled(to, &pattern, 1, bytes, HERE);
}
#if defined(__APPLE__)
void memset_pattern4(void* to, const void* pattern, size_t bytes) { filled(to, pattern, 4, bytes, HERE); }
void memset_pattern8(void* to, const void* pattern, size_t bytes) { filled(to, pattern, 8, bytes, HERE); }
void memset_pattern16(void* to, const void* pattern, size_t bytes) { filled(to, pattern, 16, bytes, HERE); }
#endif
}

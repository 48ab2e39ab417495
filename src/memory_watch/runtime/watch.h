// What code that is watched is compiled with, before its own first line.
//
// The compiler calls the runtime before each access to memory. What the code allocates is known to it, too; a loop whose
// turns may run at the same time is handed to `watch_chunks`, which lets them run one after another, each in a thread of
// its own, and says which pair of them would have raced.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#if defined(WATCHED)
extern "C" {
void watch_chunks(int64_t chunks, void (*body)(void* context, int64_t chunk), void* context);
void* watch_malloc(size_t bytes);
void* watch_calloc(size_t count, size_t bytes);
void* watch_realloc(void* memory, size_t bytes);
void* watch_aligned_alloc(size_t alignment, size_t bytes);
void watch_free(void* memory);
}

namespace std {
using ::watch_aligned_alloc;
using ::watch_calloc;
using ::watch_free;
using ::watch_malloc;
using ::watch_realloc;
}
#endif

// Calls a function of any signature with arguments that stand one after another in memory.
template <class... A, size_t... I>
void watch_apply(void (*function)(A...), void** arguments, std::index_sequence<I...>) {
    function(*static_cast<A*>(arguments[I])...);
}
template <class... A>
void watch_apply(void (*function)(A...), void** arguments) {
    watch_apply(function, arguments, std::index_sequence_for<A...>{});
}
#define WATCH_CALLABLE(name) \
    extern "C" __attribute__((visibility("default"))) void watched_##name(void** a) { watch_apply(name, a); }

#if defined(WATCHED)
// GCC would copy and fill memory without a call that can be seen.
#define __builtin_memcpy memcpy
#define __builtin_memmove memmove
#define __builtin_memset memset
#define malloc watch_malloc
#define calloc watch_calloc
#define realloc watch_realloc
#define aligned_alloc watch_aligned_alloc
#define free watch_free
#endif

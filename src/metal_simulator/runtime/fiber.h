// A fiber: a stack of its own, on which a thread of the kernel runs until it waits.
#pragma once
#include <cstddef>

// Where the processor is not known here, the C library switches, several times slower.
#if !defined(SIMULATOR_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define SIMULATOR_UCONTEXT
#endif

#if defined(SIMULATOR_UCONTEXT)
#if defined(__APPLE__)
#define _XOPEN_SOURCE 600
#endif
#include <ucontext.h>
#endif

struct Fiber {
#if defined(SIMULATOR_UCONTEXT)
    ucontext_t state;
#else
    void* top;  // of the stack, where the registers lie
#endif

    void prepare(char* stack, size_t bytes, void (*start)());  // it never returns
    void switch_to(Fiber& other);
};

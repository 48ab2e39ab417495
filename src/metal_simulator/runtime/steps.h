// What else can end a run: a thread that never ends, a division by zero.
#pragma once
#include <cstdint>

extern int64_t steps_left;  // straight pieces of code that the running thread may still begin

[[noreturn]] void out_of_steps(const void* at);
[[noreturn]] void divided_by_zero(const void* at);

inline void step(const void* at) {
    if (--steps_left < 0) out_of_steps(at);
}

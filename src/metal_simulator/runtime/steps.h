// What else can end a run: a thread that never ends, a division by zero, an index outside of an array.
#pragma once
#include <cstdint>

#include "interface.h"

// What the running thread may still do: a turn of a loop is a step, and what takes longer here is more. It is what ends
// an endless loop, at the same place on every machine.
extern int64_t steps_left;
constexpr int64_t STEPS_TO_TOUCH = 10, STEPS_TO_WAIT = 50;

[[noreturn]] void out_of_steps(const void* at);
[[noreturn]] void divided_by_zero(const void* at);
[[noreturn]] void outside_array(const char* type, int64_t index, simulator::Place);

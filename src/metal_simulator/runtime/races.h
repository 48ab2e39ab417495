// Whether two threads touch the same element with nothing between them that says who is first.
#pragma once
#include <cstddef>

#include "access.h"
#include "memory.h"

// What has been passed by the threadgroup that runs: two accesses are ordered if a barrier lies between them.
struct Epochs {
    uint32_t group;         // the number of the threadgroup
    uint32_t shared;        // barriers that order threadgroup memory
    uint32_t device;        // barriers that order device memory
    uint32_t simdgroup[32];  // operations of each SIMD-group, in which its lanes meet
};
extern Epochs epochs;

// Notes it if this access races with an earlier one.
void check_races(Region&, size_t offset, size_t bytes, Touch how, uint32_t thread, const void* at);

// Two threads that write the same value do no harm. The value is not there yet when a compiler announces the write: so
// a suspicion is kept, and looked at when the thread does its next thing.
void check_suspicion();
void drop_suspicion();

extern const char* code;  // where the kernel's code begins

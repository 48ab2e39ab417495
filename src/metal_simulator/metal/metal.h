// All of Metal that is known here: what a kernel's text is compiled with, before its own first line.
//
// Address spaces are words without a meaning on a CPU; variables in threadgroup memory are found by translation.py.
#pragma once
#include "atomics.h"
#include "replaced.h"
#include "constants.h"
#include "entry.h"
#include "matrices.h"
#include "matrix.h"

namespace metal {
// A variable in threadgroup memory: one for all threads, with room on both sides where a wrong index can be seen.
template <class T> struct Shared {
    static constexpr size_t GAP = 4096;
    char before[GAP];
    alignas(16) T variable;
    char after[GAP];

    METAL_UNWATCHED T& declare(const char* name, METAL_HERE) {
        using Element = std::remove_all_extents_t<T>;
        simulator_shared(&variable, sizeof variable, sizeof(Element), name, at);
        return variable;
    }
};
}  // namespace metal

using namespace metal;

#define device
#define constant
#define thread
#define threadgroup
#define kernel

// Each turn of a loop is counted, so that one that never ends does.
#define for(...) for (__VA_ARGS__) if (simulator_step(), false) {} else
#define while(...) while (simulator_step(), (__VA_ARGS__))

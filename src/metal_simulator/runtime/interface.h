// What a kernel's code and the runtime know of each other.
#pragma once
#include <cstddef>
#include <cstdint>

namespace simulator {
constexpr uint32_t LANES = 32;      // threads of a SIMD-group
constexpr uint32_t THREADS = 1024;  // of a threadgroup, at most

struct Three {
    uint32_t x, y, z;
};

// What a thread can ask about itself.
struct Thread {
    Three in_grid, in_group, group;       // its positions, and its threadgroup's
    Three grid, groups;                   // how many there are: threads, and threadgroups
    Three group_size, largest_group_size;  // at the grid's end a threadgroup may be smaller than the others
    uint32_t index;                       // in its threadgroup
    uint32_t count;                       // threads of its threadgroup
};

// A line of the kernel. As default argument, `Place::here()` is the line of the call. Lines, and not addresses, tell two
// barriers apart: a compiler may make two calls of one, and then threads that wait at the same barrier would seem to
// wait at different ones.
struct Place {
    const char* file;
    int32_t line;

    static constexpr Place here(const char* file = __builtin_FILE(), int32_t line = __builtin_LINE()) {
        return {file, line};
    }
};

// What the lanes of a SIMD-group have brought to an operation.
struct Brought {
    struct alignas(16) {
        unsigned char bytes[64];
    } of[LANES];
};

// The operation, for one of them. Handed over by value: what the runtime keeps is not watched.
struct Meeting {
    const Brought* brought;
    uint32_t active;  // a bit for each lane that takes part
    uint32_t lane;    // of the thread itself
};

enum Memory : uint32_t { NO_MEMORY = 0, DEVICE_MEMORY = 1, THREADGROUP_MEMORY = 2 };
}  // namespace simulator

extern "C" {
void simulator_step();  // a turn of a loop
uint32_t simulator_lane();
// Waits for the lanes that reach the same operation at the same place; `whole` if all of the SIMD-group must.
simulator::Meeting simulator_meet(const void* value, size_t bytes, bool whole, const char* operation, simulator::Place at);
void simulator_barrier(uint32_t memory, simulator::Place at);
// A variable in threadgroup memory, which exists from here on.
void simulator_shared(void* variable, size_t bytes, size_t element, const char* name, simulator::Place at);
// `reads` if what it does depends on what is there.
void simulator_atomic(const void* address, size_t bytes, bool reads, const void* at);
}

// What a run has moved: the figures that are the same on every machine.
#pragma once
#include <cstddef>
#include <cstdint>

#include "access.h"
#include "memory.h"

// In the order of counters.py.
struct Counters {
    uint64_t threads, threadgroups;
    uint64_t device_bytes_read, device_bytes_written;
    uint64_t device_accesses, device_transactions;
    uint64_t threadgroup_bytes_read, threadgroup_bytes_written;
    uint64_t threadgroup_accesses, bank_conflicts;
    uint64_t barriers, simd_operations, matrix_products, atomics;
    uint64_t threadgroup_memory;
};
extern Counters counters;

// An access of a thread. The nth access at a place by each lane of a SIMD-group is one access of the SIMD-group.
void count(const Region&, const char* address, size_t bytes, Touch how, uint32_t lane, const void* at);

// The SIMD-group that ran has come to where its lanes meet, or to a barrier: adds up what it has accessed.
void add_up();
void reset_traffic();

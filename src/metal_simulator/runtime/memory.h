// The buffers of a run, and what is known of each of their bytes.
#pragma once
#include <cstddef>
#include <cstdint>

#include "access.h"

enum Use : int32_t { INPUT, OUTPUT, FILLED, CONSTANT, SHARED };  // FILLED: an output with an initial value

// Who has touched an element last, and when; races.cpp compares them.
struct Mark {
    uint32_t who;    // 0: no thread
    uint32_t epoch;  // barriers of the threadgroup that order this memory
    uint32_t simd_epoch : 30;
    uint32_t many : 1;    // so have other lanes of the same SIMD-group, since they last met
    uint32_t atomic : 1;  // by an atomic operation
    uint32_t at;          // in the kernel's code, from its beginning
};

struct Cell {
    Mark written, read, read_elsewhere;  // elsewhere: by another SIMD-group
};

struct Region {
    char* start;
    size_t bytes;
    size_t element;
    Use use;
    char name[64];
    uint8_t* written;       // of each byte, whether anything has been; null for inputs
    Cell* cells;            // one for every `1 << grain` bytes
    uint32_t grain;
    const void* writes_at;  // a place in the code that writes to it
};

char* add_region(void* start, size_t bytes, size_t element, Use use, const char* name);  // null start: allocates
void drop_regions();
void forget_shared();                        // threadgroup memory holds nothing when a threadgroup begins
Region* region_at(const char* address);      // null if it is none of them
bool is_in_gap(const char* address, size_t bytes);  // around a buffer: memory that may be touched
Region* nearest_region(const char* address, int64_t& index);
Region* next_region(Region* before);         // all in turn, from null to null
void fit_grain(Region&, size_t offset, size_t bytes);  // cells small enough for this access
size_t shared_bytes();

// What a kernel did wrong. The run ends there, unless it goes on after faults.
#pragma once
#include <cstdint>

#include "access.h"
#include "interface.h"

// In the order of faults.py.
enum Kind : int32_t {
    NO_FAULT,
    OUT_OF_BOUNDS,
    INPUT_WRITTEN,
    RACE,
    DIVERGENT_BARRIER,
    UNINITIALIZED_READ,
    OUTPUT_UNWRITTEN,
    ENDLESS_LOOP,
    TOO_MUCH_MEMORY,
    DIVISION_BY_ZERO,
    MISALIGNED,
    DIVERGENT_SIMD,
    NO_ROOM,
};

// One of the two that a fault is about. `at` is an address in the kernel's code; where there is none, `place` is it.
struct Party {
    int32_t how;     // a Touch
    int32_t known;   // whether `thread` and `group` say who it was
    simulator::Three thread, group;
    const void* at;
    simulator::Place place;
};

struct Fault {
    int32_t kind;
    int32_t shared;  // whether the buffer is in threadgroup memory
    int64_t index;   // of the element
    int64_t count;   // elements of the buffer; threads; bytes
    int64_t other_count;  // missing elements; threads elsewhere; 1 if the name is that of an array's type
    Party here, there;
    char name[64];  // of the buffer, or of the operation
};

extern Fault fault;

Party running(Touch how, const void* at);  // the thread that runs
[[noreturn]] void stop();                  // the run, after `fault` has been filled

// The reported faults of a run, one for each place in the code.
constexpr int MOST_FAULTS = 64;
extern Fault faults[MOST_FAULTS];
extern int fault_count;
extern bool continues;  // the run, after a fault that leaves the process intact
void add_fault(const Fault&);
bool reported();        // returns whether the run continues; then `fault` is added and cleared

// A read of uninitialized memory. Threads run one after another, so that it may be a race that the reader has
// won: if the writer comes before the next barrier, that is what is reported. Otherwise this is, and before anything that
// came of the rubbish that was read.
extern Fault unwritten_read;  // its kind is NO_FAULT if there is none

// The first race since the last barrier; the run goes on until the next. If one of its two threads then waits there and
// the other does not, that is what is reported: there is a barrier, and not all come to it. Otherwise the race is, and before
// anything that came of it.
struct Race {
    Fault fault;     // its kind is NO_FAULT if there is none
    int one, other;  // the threads; -1 if it is not known, or in another threadgroup
};
extern Race first_race;

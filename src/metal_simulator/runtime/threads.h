// The threads of the threadgroup that runs, each on a fiber, and where each of them waits.
#pragma once
#include "fault.h"
#include "fiber.h"
#include "interface.h"

enum State { READY, IN_SIMD_OPERATION, AT_BARRIER, ENDED };

struct Lane {
    Fiber fiber;
    State state;
    simulator::Thread thread;
    simulator::Place place;            // where it waits
    const void* at;         // the same, as an address
    const char* operation;
    uint32_t memory;        // what its barrier orders
    uint32_t active;        // with whom it goes on
    bool whole;             // the operation needs all lanes
    int64_t steps;
    unsigned char value[64];
};

extern Lane lanes[simulator::THREADS];
extern bool stopped;  // the run: no thread goes on

using Entry = void (*)(void** arguments, const simulator::Thread*);

bool make_stacks();  // false if there is no room
void allow(int64_t steps);
void call(Entry, void** arguments);
void place(int thread, simulator::Three group, const simulator::Three& grid, const simulator::Three& largest,
           const simulator::Three& groups);
void run_thread(int thread);  // until it waits or ends
Party waiting(const Lane&);
void stop_at(Kind, const Lane&, int64_t count, int64_t others);
void bring(const Lane*, uint32_t active);  // what the active lanes of a SIMD-group have brought to an operation

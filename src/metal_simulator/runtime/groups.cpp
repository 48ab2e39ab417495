// Runs a kernel: its threadgroups one after another, their threads on fibers, each until it must wait.
//
// The threads of a SIMD-group run in the order of their lanes. Those that wait for an operation of the SIMD-group go on
// together when all of its lanes wait or have ended; if they wait at several places, those at the foremost in the code
// go first, so that lanes which took different branches meet again after them, as they do on a GPU.
#include <cstring>

#include "groups.h"
#include "memory.h"
#include "numbers.h"
#include "races.h"
#include "threads.h"
#include "traffic.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

using namespace simulator;

namespace {
uint32_t simd_of(int thread) { return thread / LANES; }

// Whether a place comes before another in the kernel, as far as is known.
bool is_before(const Lane& a, const Lane& b) {
    if (!std::strcmp(a.place.file, b.place.file) && a.place.line != b.place.line) return a.place.line < b.place.line;
    return a.at < b.at;
}

// Lets those lanes of a SIMD-group go on that wait at the foremost place; whether there are any.
bool meet(int first, int end) {
    int foremost = -1;
    for (int i = first; i < end; ++i)
        if (lanes[i].state == IN_SIMD_OPERATION && (foremost < 0 || is_before(lanes[i], lanes[foremost])))
            foremost = i;
    if (foremost < 0) return false;
    const Lane& one = lanes[foremost];
    uint32_t active = 0;
    for (int i = first; i < end; ++i) {
        const Lane& lane = lanes[i];
        if (lane.state == IN_SIMD_OPERATION && lane.place.line == one.place.line && lane.operation == one.operation &&
            !std::strcmp(lane.place.file, one.place.file))
            active |= 1u << (i - first);
    }
    if (one.whole && active != ~0u) {
        stop_at(DIVERGENT_SIMD, one, __builtin_popcount(active), end - first);
        if (!reported()) return true;
    }
    bring(&lanes[first], active);
    for (int i = first; i < end; ++i) {
        if (!(active >> (i - first) & 1)) continue;
        lanes[i].active = active;
        lanes[i].state = READY;
    }
    ++epochs.simdgroup[simd_of(first)];
    ++counters.simd_operations;
    counters.matrix_products += !std::strncmp(one.operation, "simdgroup_multiply", 18);
    return true;
}

void run_simdgroup(int first, int end) {
    do {
        for (int i = first; i < end && !stopped; ++i)
            if (lanes[i].state == READY) run_thread(i);
        add_up();
    } while (!stopped && meet(first, end));
}

// Returns whether the run continues after what was noted since the last barrier. Races have been added already.
bool settled() {
    if (!unwritten_read.kind && !first_race.fault.kind) return true;
    if (!continues) return false;
    if (!first_race.fault.kind) add_fault(unwritten_read);
    unwritten_read = {};
    first_race = {};
    return true;
}

// Lets all threads pass the barrier at which they wait; whether there is one.
bool pass_barrier(int threads) {
    int waits = 0;
    const Lane *first = nullptr, *elsewhere = nullptr;
    uint32_t memory = ~0u;
    for (int i = 0; i < threads; ++i) {
        if (lanes[i].state != AT_BARRIER) continue;
        if (!first) first = &lanes[i];
        const bool same = lanes[i].place.line == first->place.line && !std::strcmp(lanes[i].place.file, first->place.file);
        if (!same && !elsewhere) elsewhere = &lanes[i];
        memory &= lanes[i].memory;
        ++waits;
    }
    if (!waits) return false;
    if (elsewhere || waits < threads) {
        stop_at(DIVERGENT_BARRIER, *first, waits, threads - waits);
        if (elsewhere) fault.there = waiting(*elsewhere);
        if (!reported()) return false;
    }
    if (!settled()) return false;
    ++counters.barriers;
    if (memory & THREADGROUP_MEMORY) ++epochs.shared;
    if (memory & DEVICE_MEMORY) ++epochs.device;
    for (uint32_t i = 0; i <= simd_of(threads - 1); ++i) ++epochs.simdgroup[i];
    for (int i = 0; i < threads; ++i)
        if (lanes[i].state == AT_BARRIER) lanes[i].state = READY;
    return true;
}

// The line of the barrier at which a thread waits; 0 if it waits at none.
int32_t barrier_of(int thread) { return lanes[thread].state == AT_BARRIER ? lanes[thread].place.line : 0; }

// Puts in the place of the fault what it came of, if that has been noted since the last barrier.
void find_cause() {
    if (settled()) return;
    const auto& [race, one, other] = first_race;
    if (race.kind) {
        if (fault.kind != DIVERGENT_BARRIER || other < 0 || barrier_of(one) == barrier_of(other)) fault = race;
    } else if (unwritten_read.kind) {
        fault = unwritten_read;
    }
    stopped = fault.kind != NO_FAULT;
}

void run_group(Three group, const Three& grid, const Three& largest, const Three& groups) {
    place(0, group, grid, largest, groups);
    const int threads = lanes[0].thread.count;
    for (int i = 1; i < threads; ++i) place(i, group, grid, largest, groups);
    forget_shared();
    epochs.shared = epochs.device = 1;
    for (uint32_t& epoch : epochs.simdgroup) epoch = 1;
    do {
        for (int first = 0; first < threads && !stopped; first += LANES)
            run_simdgroup(first, least(threads, first + int(LANES)));
    } while (!stopped && pass_barrier(threads));
    find_cause();
    counters.threads += threads;
    ++counters.threadgroups;
    ++epochs.group;
}
}  // namespace

SHOWN void* simulator_add(const char* name, size_t bytes, size_t element, int32_t use) {
    return add_region(nullptr, bytes, element, Use(use), name);
}

SHOWN void simulator_end() {
    drop_regions();
    reset_traffic();
}

// Runs a kernel on the added buffers. Returns the number of its faults, and sets pointers to them and to the counters.
SHOWN int simulator_run(Entry kernel, void** values, const char* kernels_code,
                         const uint32_t* grid_size, const uint32_t* group_size, int64_t steps, bool after_faults,
                         const Fault** found, const Counters** counted) {
    *found = faults;
    fault_count = 0;
    continues = after_faults;
    *counted = &counters;
    call(kernel, values);
    allow(steps);
    code = kernels_code;
    fault = unwritten_read = {};
    first_race = {};
    stopped = !make_stacks();
    fault.kind = stopped ? NO_ROOM : NO_FAULT;
    epochs.group = 0;
    const Three grid{grid_size[0], grid_size[1], grid_size[2]};
    const Three largest{group_size[0], group_size[1], group_size[2]};
    const Three groups{(grid.x + largest.x - 1) / largest.x, (grid.y + largest.y - 1) / largest.y,
                       (grid.z + largest.z - 1) / largest.z};
    for (uint32_t z = 0; z < groups.z; ++z)
        for (uint32_t y = 0; y < groups.y; ++y)
            for (uint32_t x = 0; x < groups.x && !stopped; ++x) run_group({x, y, z}, grid, largest, groups);
    if (!stopped) find_unwritten();
    if (fault.kind) add_fault(fault);
    return fault_count;
}

// Runs a kernel: its threadgroups one after another, their threads on fibers, each until it must wait.
//
// The threads of a SIMD-group run in the order of their lanes. Those that wait for an operation of the SIMD-group go on
// together when all of its lanes wait or have ended; if they wait at several places, those at the foremost in the code
// go first, so that lanes which took different branches meet again behind them, as they do on a GPU.
#include "groups.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "fault.h"
#include "fiber.h"
#include "interface.h"
#include "memory.h"
#include "races.h"
#include "steps.h"
#include "traffic.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

using namespace simulator;

Fault fault, unwritten_read;
int64_t steps_left = 0;

namespace {
constexpr size_t STACK = size_t(256) << 10;  // bytes: more than compiling.py lets a function have
constexpr size_t SHARED_BYTES = 32768;       // of threadgroup memory, on every Apple GPU

enum State { READY, IN_SIMD_OPERATION, AT_BARRIER, ENDED };

struct Lane {
    Fiber fiber;
    State state;
    Thread thread;
    Place place;            // where it waits
    const void* at;         // the same, as an address
    const char* operation;
    uint32_t memory;        // what its barrier orders
    uint32_t active;        // with whom it goes on
    bool whole;             // the operation needs all lanes
    int64_t steps;
    unsigned char value[64];
};

Lane lanes[THREADS];
char* stacks = nullptr;
Fiber scheduler;
int now = -1;  // the thread that runs
Brought brought;
bool stopped = false;
int64_t total_steps = 0, steps_each = 0;
void (*entry)(void**, const Thread*);
void** arguments;

uint32_t simd_of(int thread) { return thread / LANES; }

void wait(State state) {
    check_suspicion();
    steps_left -= STEPS_TO_WAIT;
    lanes[now].state = state;
    lanes[now].fiber.switch_to(scheduler);
}

void start_thread() {
    entry(arguments, &lanes[now].thread);
    wait(ENDED);
    __builtin_trap();
}

void run_thread(int thread) {
    Lane& lane = lanes[thread];
    const int64_t before = std::min(steps_each - lane.steps, total_steps);
    steps_left = before;
    now = thread;
    scheduler.switch_to(lane.fiber);
    now = -1;
    const int64_t used = before - steps_left;
    lane.steps += used;
    total_steps -= used;
}

Party waiting(const Lane& lane) {
    Party party{};
    party.known = true;
    party.thread = lane.thread.in_group;
    party.group = lane.thread.group;
    party.place = lane.place;
    return party;
}

void stop_at(Kind kind, const Lane& lane, int64_t count, int64_t others) {
    fault = {};
    fault.kind = kind;
    fault.here = waiting(lane);
    fault.count = count;
    fault.other_count = others;
    if (lane.operation) std::strncpy(fault.name, lane.operation, sizeof fault.name - 1);
    stopped = true;
}

// Whether a place comes before another in the kernel, as far as can be told.
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
        return true;
    }
    std::memset(brought.of, 0xff, sizeof brought.of);  // what a lane that is not there would give
    for (int i = first; i < end; ++i) {
        if (!(active >> (i - first) & 1)) continue;
        lanes[i].active = active;
        std::memcpy(brought.of[i - first].bytes, lanes[i].value, sizeof lanes[i].value);
        lanes[i].state = READY;
    }
    ++epochs.simdgroup[simd_of(first)];
    ++counters.simd_operations;
    return true;
}

void run_simdgroup(int first, int end) {
    do {
        for (int i = first; i < end && !stopped; ++i)
            if (lanes[i].state == READY) run_thread(i);
        add_up();
    } while (!stopped && meet(first, end));
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
        return false;
    }
    if (unwritten_read.kind) return false;
    ++counters.barriers;
    if (memory & THREADGROUP_MEMORY) ++epochs.shared;
    if (memory & DEVICE_MEMORY) ++epochs.device;
    for (uint32_t i = 0; i <= simd_of(threads - 1); ++i) ++epochs.simdgroup[i];
    for (int i = 0; i < threads; ++i) lanes[i].state = READY;
    return true;
}

void prepare(int index, Three group, const Three& grid, const Three& largest, const Three& groups) {
    const Three origin{group.x * largest.x, group.y * largest.y, group.z * largest.z};
    const Three size{std::min(largest.x, grid.x - origin.x), std::min(largest.y, grid.y - origin.y),
                     std::min(largest.z, grid.z - origin.z)};
    const uint32_t i = index;
    const Three inside{i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    Lane& lane = lanes[index];
    lane.state = READY;
    lane.steps = 0;
    lane.operation = nullptr;
    lane.thread = {{origin.x + inside.x, origin.y + inside.y, origin.z + inside.z}, inside, group, grid, groups, size,
                   largest, i, size.x * size.y * size.z};
    lane.fiber.prepare(stacks + index * STACK, STACK, start_thread);
}

void run_group(Three group, const Three& grid, const Three& largest, const Three& groups) {
    prepare(0, group, grid, largest, groups);
    const int threads = lanes[0].thread.count;
    for (int i = 1; i < threads; ++i) prepare(i, group, grid, largest, groups);
    forget_shared();
    epochs.shared = epochs.device = 1;
    for (uint32_t& epoch : epochs.simdgroup) epoch = 1;
    do {
        for (int first = 0; first < threads && !stopped; first += LANES)
            run_simdgroup(first, std::min<int>(threads, first + LANES));
    } while (!stopped && pass_barrier(threads));
    if (unwritten_read.kind && fault.kind != RACE) {
        fault = unwritten_read;
        stopped = true;
    }
    counters.threads += threads;
    ++counters.threadgroups;
    ++epochs.group;
}
}  // namespace

bool is_own_stack(const char* address) { return size_t(address - (stacks + size_t(now) * STACK)) < STACK; }
bool is_stack(const char* address) { return size_t(address - stacks) < STACK * THREADS; }

int running_thread() { return now; }
Three position_of(int thread) { return lanes[thread].thread.in_group; }

Party running(Touch how, const void* at) {
    Party party{};
    party.how = how;
    party.at = at;
    if (now < 0) return party;
    party.known = true;
    party.thread = lanes[now].thread.in_group;
    party.group = lanes[now].thread.group;
    return party;
}

void stop() {
    stopped = true;
    drop_suspicion();
    lanes[now].state = ENDED;
    lanes[now].fiber.switch_to(scheduler);
    __builtin_trap();
}

void out_of_steps(const void* at) {
    fault = {};
    fault.kind = ENDLESS_LOOP;
    fault.here = running(READ, at);
    stop();
}

SHOWN void simulator_step() {
    if (--steps_left < 0) out_of_steps(__builtin_return_address(0));
}

SHOWN uint32_t simulator_lane() { return now % LANES; }

SHOWN __attribute__((noinline)) Meeting simulator_meet(const void* value, size_t bytes, bool whole,
                                                       const char* operation, Place place) {
    Lane& lane = lanes[now];
    std::memcpy(lane.value, value, bytes);
    lane.place = place;
    lane.at = __builtin_return_address(0);
    lane.operation = operation;
    lane.whole = whole;
    wait(IN_SIMD_OPERATION);
    return {&brought, lane.active, uint32_t(now) % LANES};
}

SHOWN void simulator_barrier(uint32_t memory, Place place) {
    Lane& lane = lanes[now];
    lane.place = place;
    lane.operation = nullptr;
    lane.memory = memory;
    wait(AT_BARRIER);
}

SHOWN void simulator_shared(void* variable, size_t bytes, size_t element, const char* name, Place place) {
    if (region_at(static_cast<char*>(variable))) return;
    const bool room = add_region(variable, bytes, element, SHARED, name);
    counters.threadgroup_memory = shared_bytes();
    if (room && counters.threadgroup_memory <= SHARED_BYTES) return;
    lanes[now].place = place;
    stop_at(TOO_MUCH_MEMORY, lanes[now], counters.threadgroup_memory, SHARED_BYTES);
    std::strncpy(fault.name, name, sizeof fault.name - 1);
    stop();
}

SHOWN void* simulator_add(const char* name, size_t bytes, size_t element, int32_t use) {
    return add_region(nullptr, bytes, element, Use(use), name);
}

SHOWN void simulator_end() {
    drop_regions();
    reset_traffic();
}

// Runs a kernel on what has been added. What it did wrong is then in the fault, what it did at all in the counters.
SHOWN void simulator_run(void (*kernel)(void**, const Thread*), void** values, const char* kernels_code,
                         const uint32_t* grid_size, const uint32_t* group_size, int64_t steps, const Fault** found,
                         const Counters** counted) {
    if (!stacks) {
        void* memory = mmap(nullptr, STACK * THREADS, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
        if (memory != MAP_FAILED) stacks = static_cast<char*>(memory);
    }
    *found = &fault;
    *counted = &counters;
    entry = kernel;
    arguments = values;
    code = kernels_code;
    fault = unwritten_read = {};
    fault.kind = stacks ? NO_FAULT : NO_ROOM;
    stopped = !stacks;
    total_steps = steps;
    steps_each = steps / 20;
    epochs.group = 0;
    const Three grid{grid_size[0], grid_size[1], grid_size[2]};
    const Three largest{group_size[0], group_size[1], group_size[2]};
    const Three groups{(grid.x + largest.x - 1) / largest.x, (grid.y + largest.y - 1) / largest.y,
                       (grid.z + largest.z - 1) / largest.z};
    for (uint32_t z = 0; z < groups.z; ++z)
        for (uint32_t y = 0; y < groups.y; ++y)
            for (uint32_t x = 0; x < groups.x && !stopped; ++x) run_group({x, y, z}, grid, largest, groups);
    if (!stopped) find_unwritten();
}

// What a thread does that the runtime must know of: waits, declares a variable, takes a turn of a loop, ends the run.
#include "threads.h"

#include <sys/mman.h>

#include <cstring>

#include "groups.h"
#include "memory.h"
#include "numbers.h"
#include "races.h"
#include "steps.h"
#include "traffic.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

using namespace simulator;

Fault fault, unwritten_read;
Race first_race;
Fault faults[MOST_FAULTS];
int fault_count = 0;
bool continues = false;
Lane lanes[THREADS];
bool stopped = false;
int64_t steps_left = 0;

namespace {
constexpr size_t STACK = size_t(256) << 10;  // bytes: more than compiling.py lets a function have
constexpr size_t SHARED_BYTES = 32768;       // of threadgroup memory, on every Apple GPU

char* stacks = nullptr;
Fiber scheduler;
int now = -1;  // the thread that runs
Brought brought;
int64_t total_steps = 0, steps_each = 0;
Entry entry;
void** values;

void wait(State state) {
    check_suspicion();
    steps_left -= STEPS_TO_WAIT;
    lanes[now].state = state;
    lanes[now].fiber.switch_to(scheduler);
}

void start_thread() {
    entry(values, &lanes[now].thread);
    wait(ENDED);
    __builtin_trap();
}

}  // namespace

bool make_stacks() {
    if (stacks) return true;
    constexpr int FLAGS = MAP_PRIVATE | MAP_ANON | MAP_NORESERVE;
    void* memory = mmap(nullptr, STACK * THREADS, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
    if (memory == MAP_FAILED) return false;
    stacks = static_cast<char*>(memory);
    return true;
}

void allow(int64_t steps) {
    total_steps = steps;
    steps_each = steps / 20;
}

void call(Entry kernel, void** arguments) {
    entry = kernel;
    values = arguments;
}

void place(int index, Three group, const Three& grid, const Three& largest, const Three& groups) {
    const Three origin{group.x * largest.x, group.y * largest.y, group.z * largest.z};
    const Three size{least(largest.x, grid.x - origin.x), least(largest.y, grid.y - origin.y),
                     least(largest.z, grid.z - origin.z)};
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

void run_thread(int thread) {
    Lane& lane = lanes[thread];
    const int64_t before = least(steps_each - lane.steps, total_steps);
    steps_left = before;
    now = thread;
    scheduler.switch_to(lane.fiber);
    now = -1;
    const int64_t used = before - steps_left;
    lane.steps += used;
    total_steps -= used;
}

void bring(const Lane* first, uint32_t active) {
    std::memset(brought.of, 0xff, sizeof brought.of);  // what a lane that is not there would give
    for (uint32_t i = 0; i < LANES; ++i)
        if (active >> i & 1) std::memcpy(brought.of[i].bytes, first[i].value, sizeof first[i].value);
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

void add_fault(const Fault& new_one) {
    const auto is_same = [](const Party& a, const Party& b) { return a.at == b.at && a.place.line == b.place.line; };
    for (int i = 0; i < fault_count; ++i) {
        const Fault& old = faults[i];
        if (old.kind == new_one.kind && !std::strcmp(old.name, new_one.name) && is_same(old.here, new_one.here) &&
            is_same(old.there, new_one.there))
            return;
    }
    if (fault_count < MOST_FAULTS) faults[fault_count++] = new_one;
}

bool reported() {
    if (!continues) return false;
    add_fault(fault);
    fault = {};
    stopped = false;
    return true;
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
    if (!room || !reported()) stop();
}

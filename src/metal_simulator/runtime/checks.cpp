// Each access of the kernel's code, looked at before it is made.
#include <dlfcn.h>

#include <cstring>

#include "fault.h"
#include "groups.h"
#include "memory.h"
#include "races.h"
#include "steps.h"
#include "traffic.h"

namespace {
void describe(Kind kind, const Region* region, int64_t index, Touch how, const void* at) {
    fault = {};
    fault.kind = kind;
    fault.here = running(how, at);
    if (!region) return;
    fault.shared = region->use == SHARED;
    fault.index = index;
    fault.count = region->bytes / region->element;
    std::memcpy(fault.name, region->name, sizeof fault.name);
}

// Whether it is memory of the kernel's library: its tables of constants.
bool is_kernels_own(const void* address) {
    constexpr uintptr_t PAGE = 4096;
    static uintptr_t known = 0;
    static const char* known_code = nullptr;
    if (known == uintptr_t(address) / PAGE && known_code == code) return true;
    Dl_info here;
    if (!dladdr(address, &here) || here.dli_fbase != code) return false;
    known = uintptr_t(address) / PAGE;
    known_code = code;
    return true;
}

void outside(const char* address, size_t bytes, Touch how, const void* at) {
    int64_t index = 0;
    const Region* region = is_stack(address) ? nullptr : nearest_region(address, index);
    describe(OUT_OF_BOUNDS, region, index, how, at);
    if (!is_in_gap(address, bytes) || !reported()) stop();
}
}  // namespace

void touch(const void* pointer, size_t bytes, Touch how, const void* at) {
    const char* address = static_cast<const char*>(pointer);
    if (!bytes || is_own_stack(address)) return;
    check_suspicion();
    steps_left -= STEPS_TO_TOUCH;
    Region* region = region_at(address);
    if (!region) {
        if (how == READ && is_kernels_own(address)) return;
        return outside(address, bytes, how, at);
    }
    const size_t offset = address - region->start;
    if (offset + bytes > region->bytes) {
        describe(OUT_OF_BOUNDS, region, region->bytes / region->element, how, at);
        if (!is_in_gap(address, bytes) || !reported()) stop();
        return;
    }
    const int64_t index = offset / region->element;
    if (how != READ && (region->use == INPUT || region->use == CONSTANT)) {
        describe(INPUT_WRITTEN, region, index, how, at);
        if (!reported()) stop();
    }
    const uint32_t thread = running_thread();
    check_races(*region, offset, bytes, how, thread, at);
    if (region->written) {
        const void* gap = how == WRITE ? nullptr : std::memchr(region->written + offset, 0, bytes);
        if (gap && !unwritten_read.kind) {
            const size_t first = static_cast<const uint8_t*>(gap) - region->written;
            describe(UNINITIALIZED_READ, region, first / region->element, how, at);
            unwritten_read = fault;
            fault = {};
        }
        if (how != READ) std::memset(region->written + offset, 1, bytes);
    }
    if (how != READ) region->writes_at = at;
    count(*region, address, bytes, how, thread % simulator::LANES, at);
}

void touch_aligned(const void* pointer, size_t bytes, Touch how, const void* at) {
    const char* address = static_cast<const char*>(pointer);
    if (uintptr_t(address) % bytes == 0) return touch(pointer, bytes, how, at);
    if (is_own_stack(address)) return;
    const Region* region = region_at(address);
    if (!region) return outside(address, bytes, how, at);
    describe(MISALIGNED, region, (address - region->start) / int64_t(region->element), how, at);
    fault.other_count = bytes;
    stop();
}

void enter(const void*) {}
void leave() {}

extern "C" __attribute__((visibility("default"))) void simulator_atomic(const void* pointer, size_t bytes, bool reads,
                                                                       const void* at) {
    const char* address = static_cast<const char*>(pointer);
    Region* region = region_at(address);
    if (!reads && region && region->written) std::memset(region->written + (address - region->start), 1, bytes);
    touch(pointer, bytes, ATOMIC, at);
}

void divided_by_zero(const void* at) {
    describe(DIVISION_BY_ZERO, nullptr, 0, READ, at);
    stop();
}

void outside_array(const char* type, int64_t index, simulator::Place place) {
    describe(OUT_OF_BOUNDS, nullptr, index, READ, nullptr);
    fault.index = index;
    fault.other_count = 1;
    fault.here.place = place;
    std::strncpy(fault.name, type, sizeof fault.name - 1);
    stop();
}

void find_unwritten() {
    for (Region* region = next_region(nullptr); region; region = next_region(region)) {
        if (region->use != OUTPUT) continue;
        int64_t missing = 0, first = -1;
        const int64_t elements = region->bytes / region->element;
        for (int64_t i = 0; i < elements; ++i) {
            if (!std::memchr(region->written + i * region->element, 0, region->element)) continue;
            if (first < 0) first = i;
            ++missing;
        }
        if (!missing) continue;
        describe(OUTPUT_UNWRITTEN, region, first, WRITE, region->writes_at);
        fault.other_count = missing;
        if (!reported()) return;
    }
}

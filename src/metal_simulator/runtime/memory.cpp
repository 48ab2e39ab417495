// The buffers of a run: where they are, far from each other, and which of them an address means.
#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {
constexpr int MOST = 256;
constexpr size_t GAP = size_t(1) << 20;  // between buffers, so that an index a little wrong hits none
constexpr size_t SHARED_GAP = 4096;       // of Shared in metal/metal.h
constexpr int GARBAGE = 0xff;            // what nothing has been written to: of floats it makes NaNs

Region regions[MOST];
struct Zone {
    void* start;
    size_t bytes;
} zones[MOST];
int count = 0, zone_count = 0;
int last = 0;  // where the last address was: the next one is mostly there, too

uint32_t grain_of(size_t bytes) {  // of elements of 8 bytes and more it is 8 bytes
    uint32_t grain = 0;
    while (grain < 3 && size_t(2) << grain <= bytes) ++grain;
    return grain;
}

size_t cells_of(const Region& region) { return (region.bytes >> region.grain) + 1; }
}  // namespace

char* add_region(void* start, size_t bytes, size_t element, Use use, const char* name) {
    if (count == MOST) return nullptr;
    Region& region = regions[count];
    if (!start) {
        const size_t gap = GAP + bytes, whole = bytes + 2 * gap;
        void* zone = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
        if (zone == MAP_FAILED) return nullptr;
        zones[zone_count++] = {zone, whole};
        start = static_cast<char*>(zone) + gap / 256 * 256;
    }
    region = {static_cast<char*>(start), bytes, element, use, {}, nullptr, nullptr, grain_of(element), nullptr};
    std::strncpy(region.name, name, sizeof region.name - 1);
    if (use == OUTPUT || use == SHARED) {
        std::memset(region.start, GARBAGE, bytes);
        region.written = static_cast<uint8_t*>(std::calloc(bytes + 1, 1));
    }
    if (use != CONSTANT && use != INPUT) region.cells = static_cast<Cell*>(std::calloc(cells_of(region), sizeof(Cell)));
    ++count;
    return region.start;
}

void drop_regions() {
    for (int i = 0; i < count; ++i) {
        std::free(regions[i].written);
        std::free(regions[i].cells);
    }
    for (int i = 0; i < zone_count; ++i) munmap(zones[i].start, zones[i].bytes);
    count = zone_count = last = 0;
}

void forget_shared() {
    for (int i = 0; i < count; ++i) {
        Region& region = regions[i];
        if (region.use != SHARED) continue;
        std::memset(region.start, GARBAGE, region.bytes);
        std::memset(region.written, 0, region.bytes);
    }
}

Region* region_at(const char* address) {
    const Region& likely = regions[last];
    if (last < count && size_t(address - likely.start) < likely.bytes) return &regions[last];
    for (int i = 0; i < count; ++i) {
        if (size_t(address - regions[i].start) >= regions[i].bytes) continue;
        last = i;
        return &regions[i];
    }
    return nullptr;
}

bool is_in_gap(const char* address, size_t bytes) {
    for (int i = 0; i < zone_count; ++i) {
        const size_t offset = address - static_cast<char*>(zones[i].start);
        if (offset < zones[i].bytes && bytes <= zones[i].bytes - offset) return true;
    }
    for (int i = 0; i < count; ++i) {
        const size_t offset = address - (regions[i].start - SHARED_GAP), whole = regions[i].bytes + 2 * SHARED_GAP;
        if (regions[i].use == SHARED && offset < whole && bytes <= whole - offset) return true;
    }
    return false;
}

Region* nearest_region(const char* address, int64_t& index) {
    constexpr int64_t WRAPPED = int64_t(1) << 32;  // what an unsigned index below zero becomes
    Region* nearest = nullptr;
    int64_t least = INT64_MAX;
    for (int i = 0; i < count; ++i) {
        const Region& region = regions[i];
        const int64_t element = region.element, bytes = address - region.start;
        const int64_t there = bytes >= 0 ? bytes / element : -((-bytes + element - 1) / element);
        for (const int64_t tried : {there, there - WRAPPED}) {
            const int64_t beyond = tried - int64_t(region.bytes) / element;
            const int64_t distance = (tried < 0 ? -tried : beyond) * element;
            if (distance < 0 || distance >= least) continue;
            least = distance;
            nearest = &regions[i];
            index = there;
        }
    }
    return nearest;
}

Region* next_region(Region* before) {
    Region* next = before ? before + 1 : regions;
    return next < regions + count ? next : nullptr;
}

void fit_grain(Region& region, size_t offset, size_t bytes) {
    uint32_t grain = region.grain;
    while (grain && ((offset | bytes) & ((size_t(1) << grain) - 1))) --grain;
    if (grain == region.grain) return;
    const Cell* before = region.cells;
    const uint32_t finer = region.grain - grain;
    region.grain = grain;
    auto* cells = static_cast<Cell*>(std::calloc(cells_of(region), sizeof(Cell)));
    for (size_t i = 0; i < region.bytes >> grain; ++i) cells[i] = before[i >> finer];
    std::free(region.cells);
    region.cells = cells;
}

size_t shared_bytes() {
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += regions[i].use == SHARED ? regions[i].bytes : 0;
    return bytes;
}

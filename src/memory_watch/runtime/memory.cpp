// Blocks of memory with guard zones around them.
#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

thread_local bool in_runtime = false;

namespace {
constexpr size_t FAR = size_t(1) << 30;  // the guard zones of a buffer: address space, and no memory
constexpr size_t HEAD = 16;              // the zone before what is allocated, where the allocator keeps its own
constexpr size_t LINE = 64;              // bytes that a buffer is aligned to

std::recursive_mutex mutex;

std::map<char*, Block>& blocks() {  // by their zones; never destroyed: others may allocate to the very end
    static auto* all = new std::map<char*, Block>;
    return *all;
}

void forget(std::map<char*, Block>::iterator at) {
    std::free(at->second.written);
    std::free(at->second.marks);
    blocks().erase(at);
}

Block* keep(const Block& block) {
    return &(blocks()[block.zone] = block);
}
}  // namespace

Block* block_at(const void* address) {
    std::lock_guard<std::recursive_mutex> alone(mutex);
    auto p = static_cast<char*>(const_cast<void*>(address));
    auto after = blocks().upper_bound(p);
    if (after == blocks().begin()) return nullptr;
    Block& block = std::prev(after)->second;
    return p < block.zone + block.whole ? &block : nullptr;
}

Block* add_buffer(size_t bytes, size_t element, int32_t number, Use use) {
    std::lock_guard<std::recursive_mutex> alone(mutex);
    InRuntime guard;
    const size_t page = sysconf(_SC_PAGESIZE);
    const size_t pages = (bytes + page - 1) / page * page;
    void* zone = mmap(nullptr, 2 * FAR + pages, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    if (zone == MAP_FAILED) return nullptr;
    char* first = static_cast<char*>(zone) + FAR;
    if (pages) {
        mprotect(first, pages, PROT_READ | PROT_WRITE);
        std::memset(first, GARBAGE, pages);
    }
    // Placed at the end, as far as its alignment permits, so that reads past it leave the block.
    char* start = first + (pages - bytes) / LINE * LINE;
    auto written = use == OUTPUT ? static_cast<uint8_t*>(std::calloc(bytes + 1, 1)) : nullptr;
    return keep({static_cast<char*>(zone), 2 * FAR + pages, start, bytes, element, number, use, written, nullptr});
}

void drop_buffers() {
    std::lock_guard<std::recursive_mutex> alone(mutex);
    InRuntime guard;
    for (auto at = blocks().begin(); at != blocks().end();) {
        auto here = at++;
        if (here->second.use == OWN) continue;
        munmap(here->second.zone, here->second.whole);
        forget(here);
    }
}

Block* next_buffer(Block* before) {
    auto at = before ? blocks().upper_bound(before->zone) : blocks().begin();
    while (at != blocks().end() && at->second.use == OWN) ++at;
    return at == blocks().end() ? nullptr : &at->second;
}

void add_own(void* memory, size_t bytes) {
    std::lock_guard<std::recursive_mutex> alone(mutex);
    InRuntime guard;
    char* start = static_cast<char*>(memory);
    char* zone = start - HEAD;
    // A block freed without a call to us is gone. Its neighbor is not: the zone before it may overlap ours.
    auto at = blocks().lower_bound(zone);
    while (at != blocks().end() && at->second.start < start + bytes + NEAR) forget(at++);
    std::memset(memory, GARBAGE, bytes);
    keep({zone, HEAD + bytes + NEAR, start, bytes, 0, -1, OWN, nullptr, nullptr});
}

void drop_own(void* memory) {
    std::lock_guard<std::recursive_mutex> alone(mutex);
    InRuntime guard;
    auto at = blocks().find(static_cast<char*>(memory) - HEAD);
    if (at != blocks().end()) forget(at);
}

bool is_spilled(const Block& block, const char*& where) {
    const char* end = block.zone + block.whole - FAR;
    for (const char* p = block.start + block.bytes; p < end; ++p)
        if (uint8_t(*p) != GARBAGE) return where = p, true;
    for (const char* p = block.zone + FAR; p < block.start; ++p)
        if (uint8_t(*p) != GARBAGE) return where = p, true;
    return false;
}

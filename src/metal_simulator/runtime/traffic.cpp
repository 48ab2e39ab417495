// Lanes run one after another here; on a GPU they access memory together. So the accesses of each place in the code
// are kept until all lanes have come to where they meet, and then those that belong together are looked at together.
#include "traffic.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "interface.h"
#include "numbers.h"

Counters counters;

namespace {
using simulator::LANES;
constexpr uint64_t LINE = 64;   // bytes of device memory that are moved together
constexpr uint64_t BANKS = 32;  // of threadgroup memory, each 4 bytes wide
constexpr uint64_t WORD = 4;
constexpr uint64_t NONE = ~uint64_t(0);
constexpr size_t MOST = size_t(1) << 17;  // accesses of a SIMD-group at one place that are kept
constexpr size_t SLOTS = 4096;            // places in the code

struct Site {
    const void* at = nullptr;
    uint64_t bytes = 0;
    bool shared = false;
    uint32_t times[LANES] = {};        // that each lane has been here
    std::vector<uint64_t> addresses;   // of access n and lane l at n * LANES + l
};
Site sites[SLOTS];
std::vector<Site*> used;

Site& site_of(const void* at) {
    size_t slot = (uintptr_t(at) * 0x9E3779B97F4A7C15ull) >> 52;
    while (sites[slot].at && sites[slot].at != at) slot = (slot + 1) % SLOTS;
    return sites[slot];
}

// The different units of memory that these lanes touch.
size_t units(const uint64_t* addresses, uint64_t bytes, uint64_t unit, uint64_t* out) {
    size_t n = 0;
    bool sorted = true;
    for (uint32_t lane = 0; lane < LANES; ++lane) {
        if (addresses[lane] == NONE) continue;
        for (uint64_t u = addresses[lane] / unit; u <= (addresses[lane] + bytes - 1) / unit; ++u) {
            if (n && u == out[n - 1]) continue;
            sorted &= !n || u > out[n - 1];
            out[n++] = u;
        }
    }
    if (sorted) return n;
    std::qsort(out, n, sizeof *out, [](const void* a, const void* b) {
        const uint64_t one = *static_cast<const uint64_t*>(a), other = *static_cast<const uint64_t*>(b);
        return (one > other) - (one < other);
    });
    size_t kept = 1;
    for (size_t i = 1; i < n; ++i)
        if (out[i] != out[kept - 1]) out[kept++] = out[i];
    return kept;
}

void add_up(const Site& site, const uint64_t* addresses) {
    uint64_t unit[LANES * 9];  // an access is 16 bytes at most, or else a range: then the first 32 bytes count
    const uint64_t bytes = least(site.bytes, 8 * WORD);
    if (!site.shared) {
        ++counters.device_accesses;
        counters.device_transactions += units(addresses, bytes, LINE, unit);
        return;
    }
    ++counters.threadgroup_accesses;
    const size_t words = units(addresses, bytes, WORD, unit);
    uint64_t in_bank[BANKS] = {}, worst = 0;
    for (size_t i = 0; i < words; ++i) worst = most(worst, ++in_bank[unit[i] % BANKS]);
    counters.bank_conflicts += worst - (words + BANKS - 1) / BANKS;  // what even banks would take is no conflict
}
}  // namespace

void count(const Region& region, const char* address, size_t bytes, Touch how, uint32_t lane, const void* at) {
    if (region.use == CONSTANT) return;
    const bool shared = region.use == SHARED;
    if (how != WRITE) (shared ? counters.threadgroup_bytes_read : counters.device_bytes_read) += bytes;
    if (how != READ) (shared ? counters.threadgroup_bytes_written : counters.device_bytes_written) += bytes;
    counters.atomics += how == ATOMIC;
    Site& site = site_of(at);
    if (site.addresses.empty()) {
        if (!site.at && used.size() == SLOTS / 2) return;  // a kernel with more places than any has
        site.at = at;
        used.push_back(&site);
    }
    site.bytes = bytes;
    site.shared = shared;
    const size_t n = site.times[lane]++;
    if (n >= MOST) return;
    if ((n + 1) * LANES > site.addresses.size()) site.addresses.resize((n + 1) * LANES, NONE);
    site.addresses[n * LANES + lane] = uint64_t(address);
}

void add_up() {
    for (Site* site : used) {
        for (size_t i = 0; i < site->addresses.size(); i += LANES) add_up(*site, &site->addresses[i]);
        site->addresses.clear();
        std::memset(site->times, 0, sizeof site->times);
    }
    used.clear();
}

void reset_traffic() {
    add_up();
    for (Site& site : sites) {
        site.at = nullptr;
        if (site.addresses.capacity() > LANES * 1024) std::vector<uint64_t>().swap(site.addresses);
    }
    counters = {};
}

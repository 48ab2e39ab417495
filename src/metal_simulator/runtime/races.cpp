// Races: a write, and another access of another thread to the same element, that no barrier orders.
#include "races.h"

#include <cstring>
#include <initializer_list>

#include "fault.h"
#include "groups.h"
#include "interface.h"
#include "numbers.h"

Epochs epochs;
const char* code = nullptr;

namespace {
constexpr uint32_t BITS = 10;  // of the thread in `who`, the rest is the threadgroup

uint32_t name_of(uint32_t thread) { return (epochs.group << BITS | thread) + 1; }
uint32_t group_of(uint32_t who) { return (who - 1) >> BITS; }
uint32_t thread_of(uint32_t who) { return (who - 1) & ((1 << BITS) - 1); }
uint32_t simdgroup_of(uint32_t who) { return thread_of(who) / simulator::LANES; }

uint32_t epoch_of(const Region& region) { return region.use == SHARED ? epochs.shared : epochs.device; }

bool is_unordered(const Region& region, const Mark& mark, uint32_t me) {
    if (!mark.who) return false;
    const uint32_t simdgroup = simdgroup_of(me);
    const bool same_simdgroup = mark.who && group_of(mark.who) == epochs.group && simdgroup_of(mark.who) == simdgroup;
    const bool now = mark.epoch == epoch_of(region);
    // Another lane of the same SIMD-group has done the same since, or before: `mark` names the last.
    if (mark.who == me) return mark.many && now && mark.simd_epoch == epochs.simdgroup[simdgroup];
    if (group_of(mark.who) != epochs.group) return region.use != SHARED;  // nothing orders threadgroups
    return now && (!same_simdgroup || mark.simd_epoch == epochs.simdgroup[simdgroup]);
}

struct Suspicion {
    bool there = false;
    Race race;
    char* address;
    size_t bytes;
    unsigned char before[16];
} suspicion;

Party other(const Mark& mark, uint32_t me, Touch how) {
    Party party{};
    party.how = mark.atomic ? ATOMIC : how;
    party.known = mark.who != me && group_of(mark.who) == epochs.group;
    if (party.known) party.thread = position_of(thread_of(mark.who));
    party.at = code + mark.at;
    return party;
}

// An access of the thread that runs, to `bytes` from `offset`, of which those from `where` are in question.
struct Access {
    Region& region;
    size_t offset, bytes;
    Touch how;
    const void* at;
    uint32_t me;
};

void note(const Race& race) {
    if (continues) add_fault(race.fault);
    if (!first_race.fault.kind) first_race = race;
}

void find_race(const Access& access, size_t where, const Mark& mark, Touch theirs) {
    const auto& [region, offset, bytes, how, at, me] = access;
    Fault found{};
    found.kind = RACE;
    found.shared = region.use == SHARED;
    found.index = most(where, offset) / region.element;
    found.count = region.bytes / region.element;
    found.here = running(how, at);
    found.there = other(mark, me, theirs);
    std::memcpy(found.name, region.name, sizeof found.name);
    const Race race{found, int(thread_of(me)), found.there.known ? int(thread_of(mark.who)) : -1};
    if (how == WRITE && theirs == WRITE && !mark.atomic && bytes <= sizeof suspicion.before) {
        if (suspicion.there) return;
        suspicion = {true, race, region.start + offset, bytes, {}};
        std::memcpy(suspicion.before, suspicion.address, bytes);
        return;
    }
    note(race);
}

void note_read(const Region& region, Cell& cell, uint32_t me, const Mark& mine) {
    const Mark before = cell.read;
    cell.read = mine;
    if (!before.who) return;
    const bool together = group_of(before.who) == epochs.group && simdgroup_of(before.who) == simdgroup_of(me);
    if (!together) {
        cell.read_elsewhere = before;
    } else if (before.epoch == epoch_of(region) && before.simd_epoch == mine.simd_epoch) {
        cell.read.many = before.many || before.who != me;
    }
}
}  // namespace

void check_races(Region& region, size_t offset, size_t bytes, Touch how, uint32_t thread, const void* at) {
    if (!region.cells) return;
    fit_grain(region, offset, bytes);
    const Access access{region, offset, bytes, how, at, name_of(thread)};
    const Mark mine{access.me, epoch_of(region), epochs.simdgroup[thread / simulator::LANES] & 0x3fffffff, 0,
                    how == ATOMIC, uint32_t(static_cast<const char*>(at) - code)};
    for (size_t i = offset >> region.grain; i <= (offset + bytes - 1) >> region.grain; ++i) {
        Cell& cell = region.cells[i];
        const size_t where = i << region.grain;
        const bool both_atomic = how == ATOMIC && cell.written.atomic;
        if (!both_atomic && is_unordered(region, cell.written, access.me)) find_race(access, where, cell.written, WRITE);
        if (how == READ) {
            note_read(region, cell, access.me, mine);
            continue;
        }
        for (const Mark& read : {cell.read, cell.read_elsewhere})
            if (is_unordered(region, read, access.me)) find_race(access, where, read, READ);
        cell.written = mine;
    }
}

void check_suspicion() {
    if (!suspicion.there) return;
    suspicion.there = false;
    if (!std::memcmp(suspicion.before, suspicion.address, suspicion.bytes)) return;
    note(suspicion.race);
}

void drop_suspicion() { suspicion.there = false; }

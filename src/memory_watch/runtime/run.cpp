// Runs a kernel, and ends the run at the first access that is wrong.
#include <dlfcn.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#if defined(__APPLE__)
#include <sys/ucontext.h>
#else
#include <ucontext.h>
#endif

#include "access.h"
#include "memory.h"

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {
enum Fault : int32_t { NONE, OUTSIDE, INTO_INPUT, UNWRITTEN_READ, RACE, SIGNAL, THROWN, UNWRITTEN, ENDLESS };
constexpr int DEPTH = 12;  // calls that are remembered
constexpr int BUFFERS = 16;  // whose loads are counted
constexpr int64_t ENOUGH = 20'000'000;  // touches after which a run will not end: seconds of it

struct Report {
    int32_t fault;
    int32_t buffer;   // the number of the buffer that was added; -1 if it is none of them
    int32_t touched;  // a Touch
    int32_t signal;
    int64_t index;  // of the element; of an own block, of the byte
    int64_t count;  // elements that are not written
    int64_t chunk, other_chunk;
    int64_t chunks;  // that read an input and write an output, of the loop that has most of them
    int32_t other_touched;
    int32_t depth;
    const void* at;
    const void* other_at;
    const void* callers[DEPTH];
    char words[512];
    int64_t loads[BUFFERS], loaded[BUFFERS];  // reads of each buffer, and their bytes
};

Report report;
bool running = false;
bool watched = false;        // the compiler has made calls: this is no fast build
int64_t loops = 0;           // that have begun
int64_t touches = 0;         // in this run
int64_t chunk_now = -1;      // the chunk that runs
bool has_read = false, has_written = false;  // it: an input, an output
const char* loop_frame = nullptr;  // the stack of the thread that started the loop, from here
const char* loop_stack = nullptr;  // to here
std::unordered_map<uintptr_t, Mark>* elsewhere;  // the marks of memory that is in no block, such as a variable
std::recursive_mutex mutex;

// A thread that the runtime can stop.
struct Lane {
    sigjmp_buf back;
    char* stack;  // where its own part of the stack begins
    const void* callers[64];
    int depth = 0;
    const void* last = nullptr;  // the access that was made last
};
thread_local Lane* lane = nullptr;

[[noreturn]] void stop() {
    if (lane) siglongjmp(lane->back, 1);
    std::fprintf(stderr, "a thread of the kernel's own has touched memory that is not its own\n");
    std::abort();
}

void note(Fault fault, const Block* block, const void* address, Touch how, const void* at) {
    report.fault = fault;
    report.touched = how;
    report.at = at;
    report.chunk = chunk_now;
    report.buffer = block ? block->number : -1;
    if (block) {
        const int64_t bytes = static_cast<const char*>(address) - block->start;
        const int64_t size = block->element ? int64_t(block->element) : 1;
        report.index = bytes >= 0 ? bytes / size : -((-bytes + size - 1) / size);
        report.count = block->bytes / size;
    }
    if (!lane) return;
    for (int i = lane->depth < 64 ? lane->depth : 64; i > 0 && report.depth < DEPTH; --i)
        report.callers[report.depth++] = lane->callers[i - 1];
}

void race_on(const Block* block, const char* byte, Touch how, const void* at, int64_t other, Touch touched,
             const void* other_at) {
    note(RACE, block, byte, how, at);
    report.other_chunk = other;
    report.other_touched = touched;
    report.other_at = other_at;
}

// Whether this touch and an earlier one, of another chunk of the same loop, would race; then the report says so.
bool races(Mark& mark, const Block* block, const char* byte, Touch how, const void* at) {
    if (mark.loop != loops) {
        mark = Mark();
        mark.loop = loops;
    }
    if (mark.writer >= 0 && mark.writer != chunk_now) {
        race_on(block, byte, how, at, mark.writer, WRITE, mark.written_at);
        return true;
    }
    if (how == WRITE) {
        const int64_t other = mark.reader >= 0 && mark.reader != chunk_now ? mark.reader : mark.another;
        if (other >= 0 && other != chunk_now) {
            race_on(block, byte, how, at, other, READ, mark.read_at);
            return true;
        }
        mark.writer = chunk_now;
        mark.written_at = at;
    } else if (mark.reader != chunk_now) {
        mark.another = mark.reader;
        mark.reader = chunk_now;
        mark.read_at = at;
    }
    return false;
}

// Whether an address that is in no block is one that all chunks see: a variable of the thread that started the loop, or one of the
// library's own. What is thread_local is neither.
bool is_shared(const char* address) {
    if (address >= loop_frame && address < loop_stack) return true;
    static uintptr_t page = 0;
    static bool in_library = false;
    if (uintptr_t(address) >> 12 != page) {
        Dl_info its, own;
        page = uintptr_t(address) >> 12;
        in_library = dladdr(address, &its) && dladdr(reinterpret_cast<void*>(&drop_buffers), &own);
        in_library = in_library && its.dli_fbase == own.dli_fbase;
    }
    return in_library;
}

// Whether the touch is wrong; then the report says so.
bool is_wrong(const char* first, size_t bytes, Touch how, const void* at) {
    if (++touches > ENOUGH) {
        note(ENDLESS, nullptr, first, how, at);
        report.count = touches;
        return true;
    }
    Block* block = block_at(first);
    if (!block) block = block_at(first + bytes - 1);
    if (block) {
        const char* end = block->start + block->bytes;
        if (first < block->start || first + bytes > end) {
            const char* outside = first < block->start ? first : first < end ? end : first;
            note(OUTSIDE, block, outside, how, at);
            return true;
        }
        if (how != READ && block->use == INPUT) {
            note(INTO_INPUT, block, first, how, at);
            return true;
        }
        if (how == READ && block->number >= 0 && block->number < BUFFERS) {
            ++report.loads[block->number];
            report.loaded[block->number] += int64_t(bytes);
        }
        has_read = has_read || block->use == INPUT;
        has_written = has_written || (how == WRITE && block->use != OWN);
        if (block->written) {
            uint8_t* written = block->written + (first - block->start);
            if (how == WRITE) {
                std::memset(written, 1, bytes);
            } else if (auto hole = static_cast<uint8_t*>(std::memchr(written, 0, bytes))) {
                note(UNWRITTEN_READ, block, first + (hole - written), how, at);
                return true;
            }
        }
    }
    if (chunk_now < 0 || how == ATOMIC || !lane || (block && block->use == INPUT)) return false;
    if (!block) {
        if (!is_shared(first)) return false;
        for (size_t i = 0; i < bytes; ++i)
            if (races((*elsewhere)[uintptr_t(first + i)], nullptr, first + i, how, at)) return true;
        return false;
    }
    if (!block->marks) block->marks = static_cast<Mark*>(std::calloc(block->bytes, sizeof(Mark)));
    for (size_t i = 0; i < bytes; ++i) {
        const char* byte = first + i;
        if (races(block->marks[byte - block->start], block, byte, how, at)) return true;
    }
    return false;
}

const void* place_of(void* context) {
    auto c = static_cast<ucontext_t*>(context);
#if defined(__APPLE__) && defined(__aarch64__)
    return reinterpret_cast<void*>(__darwin_arm_thread_state64_get_pc(c->uc_mcontext->__ss));
#elif defined(__APPLE__)
    return reinterpret_cast<void*>(c->uc_mcontext->__ss.__rip);
#elif defined(__x86_64__)
    return reinterpret_cast<void*>(c->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return reinterpret_cast<void*>(c->uc_mcontext.pc);
#else
    return nullptr;
#endif
}

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
struct sigaction before[5];

void on_signal(int number, siginfo_t* info, void* context) {
    if (!lane) {  // not ours: pass it to the previous handler
        for (int i = 0; i < 5; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
        if (number == SIGABRT) raise(number);
        return;
    }
    const bool memory = number == SIGSEGV || number == SIGBUS;
    Block* block = memory ? block_at(info->si_addr) : nullptr;
    const bool elsewhere = in_runtime || number == SIGABRT;  // in code that is not the kernel's
    const void* at = elsewhere && lane->last ? lane->last : static_cast<const char*>(place_of(context)) + 1;
    note(block ? OUTSIDE : SIGNAL, block, info->si_addr, READ, at);
    report.touched = -1;
    report.signal = number;
    siglongjmp(lane->back, 1);
}

template <class Run>
bool stopped(Lane& mine, Run run) {
    mine.stack = static_cast<char*>(__builtin_frame_address(0));
    lane = &mine;
    const bool jumped = sigsetjmp(mine.back, 1);
    if (!jumped) run();
    lane = nullptr;
    return jumped;
}

void take_signals(bool ours) {
    static char spare[1 << 16];
    static stack_t old;
    stack_t fresh{};
    fresh.ss_sp = spare;
    fresh.ss_size = sizeof spare;
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (ours) sigaltstack(&fresh, &old);
    for (int i = 0; i < 5; ++i) ours ? sigaction(SIGNALS[i], &action, &before[i]) : sigaction(SIGNALS[i], &before[i], nullptr);
    if (!ours) sigaltstack(&old, nullptr);
}

template <class Run>
void with_words(Run run) {
    try {
        run();
    } catch (const std::exception& error) {
        note(THROWN, nullptr, nullptr, READ, nullptr);
        std::snprintf(report.words, sizeof report.words, "%s", error.what());
    } catch (...) {
        note(THROWN, nullptr, nullptr, READ, nullptr);
    }
}

void find_unwritten() {
    for (Block* block = next_buffer(nullptr); block; block = next_buffer(block)) {
        if (!block->written || !block->bytes) continue;
        int64_t missing = 0, first = -1;
        for (size_t i = 0; i < block->bytes; i += block->element)
            if (std::memchr(block->written + i, 0, block->element)) {
                if (!missing++) first = int64_t(i);
            }
        if (!missing) continue;
        note(UNWRITTEN, block, block->start + first, WRITE, nullptr);
        report.count = missing;
        return;
    }
}

void find_spilled() {
    const char* where = nullptr;
    for (Block* block = next_buffer(nullptr); block; block = next_buffer(block))
        if (is_spilled(*block, where)) return note(OUTSIDE, block, where, WRITE, nullptr);
}
}  // namespace

void touch(const void* address, size_t bytes, Touch how, const void* at) {
    if (!running || !bytes || in_runtime) return;
    bool wrong;
    {
        InRuntime guard;
        std::lock_guard<std::recursive_mutex> alone(mutex);
        watched = true;
        if (lane) lane->last = at;
        wrong = is_wrong(static_cast<const char*>(address), bytes, how, at);
    }
    if (wrong) stop();
}

void touch_aligned(const void* address, size_t bytes, Touch how, const void* at) { touch(address, bytes, how, at); }

void enter(const void* caller) {
    if (!lane) return;
    if (lane->depth < 64) lane->callers[lane->depth] = caller;
    ++lane->depth;
}

void leave() {
    if (lane && lane->depth > 0) --lane->depth;
}

// A loop whose chunks may run at the same time. Each has a thread, so that what is thread_local is its own.
extern "C" void watch_chunks(int64_t chunks, void (*body)(void*, int64_t), void* context) {
    if (chunk_now >= 0 || !lane) {  // a loop within a chunk, or in a thread of the kernel's own
        for (int64_t i = 0; i < chunks; ++i) body(context, i);
        return;
    }
    ++loops;
    Lane* const caller = lane;
    loop_frame = static_cast<char*>(__builtin_frame_address(0));
    loop_stack = caller->stack;
    std::unordered_map<uintptr_t, Mark> marks;
    elsewhere = &marks;
    bool ended = false;
    std::exception_ptr thrown;
    int64_t busy = 0;
    for (int64_t i = 0; i < chunks && !ended && !thrown; ++i) {
        chunk_now = i;
        has_read = has_written = false;
        std::thread([&] {
            Lane mine;
            std::memcpy(mine.callers, caller->callers, sizeof mine.callers);
            mine.depth = caller->depth;
            ended = stopped(mine, [&] {
                try {
                    body(context, i);
                } catch (...) {
                    thrown = std::current_exception();
                }
            });
        }).join();
        busy += has_read && has_written;
    }
    chunk_now = -1;
    report.chunks = std::max(report.chunks, busy);
    elsewhere = nullptr;
    if (ended) siglongjmp(caller->back, 1);
    if (thrown) std::rethrow_exception(thrown);
}

SHOWN void* watch_add(size_t bytes, size_t element, int32_t number, int32_t use) {
    Block* block = add_buffer(bytes, element, number, Use(use));
    return block ? block->start : nullptr;
}

SHOWN void watch_drop() { drop_buffers(); }

// Runs `kernel(arguments)`; what is wrong with it, or a report of no fault.
SHOWN const void* watch_run(void (*kernel)(void**), void** arguments) {
    in_runtime = false;
    report = Report();
    chunk_now = -1;
    touches = 0;
    watched = false;
    running = true;
    take_signals(true);
    Lane mine;
    const bool jumped = stopped(mine, [&] { with_words([&] { kernel(arguments); }); });
    take_signals(false);
    running = false;
    if (!jumped && !report.fault) watched ? find_unwritten() : find_spilled();
    return &report;
}

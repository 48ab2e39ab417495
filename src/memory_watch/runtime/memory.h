// Blocks of memory that are watched: the buffers handed to a kernel, and what it allocates itself.
#pragma once
#include <cstddef>
#include <cstdint>

// How a kernel may use a buffer; what it has allocated is its OWN.
enum Use : int32_t { INPUT = 0, OUTPUT = 1, CHANGED = 2, OWN = 3 };

// Who has touched a byte in the loop of this number, and where.
struct Mark {
    int64_t loop = 0;
    int64_t writer = -1, reader = -1;  // chunks
    int64_t another = -1;              // a second chunk that has read it
    const void* written_at = nullptr;
    const void* read_at = nullptr;
};

struct Block {
    char* zone;  // the guard zone before it, the block, and the guard zone after it
    size_t whole;
    char* start;
    size_t bytes;
    size_t element;  // bytes; 0 if it is not known
    int32_t number;  // of the buffer among those that were added; -1 if the kernel has allocated it
    Use use;
    uint8_t* written;  // of each byte of an OUTPUT, whether anything has been written there
    Mark* marks;       // made when it is first touched in a loop
};

constexpr size_t NEAR = 256;  // size in bytes of the guard zone after an allocation
constexpr int GARBAGE = 0xff;  // what nothing has been written to: of floats it makes NaNs

extern thread_local bool in_runtime;  // what is touched and allocated is the runtime's own

struct InRuntime {
    const bool was = in_runtime;
    InRuntime() { in_runtime = true; }
    ~InRuntime() { in_runtime = was; }
};

Block* block_at(const void* address);  // also in its guard zones; null if it is memory of another kind
Block* add_buffer(size_t bytes, size_t element, int32_t number, Use use);
void drop_buffers();
Block* next_buffer(Block* before);  // all of them in turn, from null to null
bool is_spilled(const Block& buffer, const char*& where);  // whether something has been written beside it, in its pages
void add_own(void* memory, size_t bytes);
void drop_own(void* memory);

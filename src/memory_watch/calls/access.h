// The compiler's callbacks: an access to memory at a place in the code. Each runtime defines all of them.
#pragma once
#include <cstddef>
#include <cstdint>

enum Touch : int32_t { READ, WRITE, ATOMIC };

// Returns if all is well; if not, the run ends here.
void touch(const void* address, size_t bytes, Touch how, const void* at);

// The same, of what must lie at a multiple of its own size: a vector of four floats, 16 bytes.
void touch_aligned(const void* address, size_t bytes, Touch how, const void* at);

void enter(const void* caller);  // a function of the kernel's, from this place in the code
void leave();

// What compiler.cpp defines: copying and filling that are seen, byte by byte.
void* copied(void* to, const void* from, size_t bytes, const void* at);
void* filled(void* to, const void* pattern, size_t length, size_t bytes, const void* at);

// What the compiler's calls come down to: somebody touches memory, at a place in the code.
#pragma once
#include <cstddef>
#include <cstdint>

enum Touch { READ, WRITE, ATOMIC };

// Returns if all is well; if not, the run ends here.
void touch(const void* address, size_t bytes, Touch how, const void* at);

void enter(const void* caller);  // a function of the kernel's, from this place in the code
void leave();

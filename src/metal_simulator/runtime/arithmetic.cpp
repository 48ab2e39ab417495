// What a compiler calls under -fsanitize=integer-divide-by-zero,bounds: arithmetic that a GPU would let pass.
#include <cstddef>
#include <cstdint>

#include "steps.h"

#define HERE __builtin_return_address(0)
#define SHOWN __attribute__((visibility("default")))

extern "C" {
SHOWN void __ubsan_handle_divrem_overflow(void*, uintptr_t, uintptr_t) { divided_by_zero(HERE); }

// -fsanitize=bounds knows how large a variable is that is an array.
struct Type {
    uint16_t kind, info;  // of an integer, the lowest bit of `info` says whether it has a sign
    char name[1];
};
struct OutOfBounds {
    const char* file;
    uint32_t line, column;
    const Type *array, *index;
};
SHOWN void __ubsan_handle_out_of_bounds(OutOfBounds* what, uintptr_t index) {
    const bool narrow = what->index->kind == 0 && what->index->info >> 1 == 5;  // 2 to the 5th: an int
    const int64_t value = narrow && what->index->info & 1 ? int32_t(index) : int64_t(index);
    outside_array(what->array->name, value, {what->file, int32_t(what->line)});
}
}

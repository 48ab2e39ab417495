// A switch keeps what a called function must keep, and nothing else: some 20 instructions.
#include "fiber.h"

#include <cstdint>
#include <cstring>

#if defined(SIMULATOR_UCONTEXT)
void Fiber::prepare(char* stack, size_t bytes, void (*start)()) {
    getcontext(&state);
    state.uc_stack.ss_sp = stack;
    state.uc_stack.ss_size = bytes;
    state.uc_link = nullptr;
    makecontext(&state, start, 0);
}
void Fiber::switch_to(Fiber& other) { swapcontext(&state, &other.state); }

#else
extern "C" void simulator_switch(void** from, void* to) asm("simulator_switch");
void Fiber::switch_to(Fiber& other) { simulator_switch(&top, other.top); }

#if defined(__x86_64__)
asm(R"(
.text
.globl simulator_switch
simulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

void Fiber::prepare(char* stack, size_t bytes, void (*start)()) {
    auto** p = reinterpret_cast<void**>((uintptr_t(stack) + bytes) & ~uintptr_t(15));
    *--p = nullptr;  // where `start` would return to
    *--p = reinterpret_cast<void*>(start);
    for (int i = 0; i < 6; ++i) *--p = nullptr;
    top = p;
}

#else  // 64-bit ARM
asm(R"(
.text
.globl simulator_switch
.p2align 2
simulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");

void Fiber::prepare(char* stack, size_t bytes, void (*start)()) {
    constexpr size_t SAVED = 160, RETURN = 88;  // of the registers above; x30 among them
    char* p = reinterpret_cast<char*>((uintptr_t(stack) + bytes) & ~uintptr_t(15)) - SAVED;
    std::memset(p, 0, SAVED);
    std::memcpy(p + RETURN, &start, sizeof start);
    top = p;
}
#endif
#endif

// Runs a kernel: its threadgroups one after another, their threads on fibers.
#pragma once
#include "interface.h"

bool is_own_stack(const char* address);    // of the thread that runs
bool is_stack(const char* address);        // of any
int running_thread();                      // its index in the threadgroup
simulator::Three position_of(int thread);  // in the threadgroup that runs
void find_unwritten();                     // an output of which elements are missing; then `fault` says so

"""Runs C++ functions that take buffers, and reports the line of an invalid memory access.

`building` compiles, `library` runs, `faults` words the reports. The compiler calls `runtime` before each access, as it
would call ThreadSanitizer, whose own library is not used. Independent of the course. `compiling`, `lines` and `calls`
are shared with other such runtimes, such as `metal_simulator`.
"""

"""Runs functions in C++ that take buffers, and says at which line one touches memory that it must not touch.

`building` compiles, `library` runs, `faults` puts into words. The compiler calls `runtime` before each access, as it
would call ThreadSanitizer, whose own library is not used. Nothing here knows of a course, or of what is computed.
`compiling`, `lines` and `calls` are for every such runtime: `metal_simulator` has another one.
"""

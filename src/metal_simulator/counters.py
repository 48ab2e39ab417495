"""A run's memory traffic, the same on every machine."""

import ctypes
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Counters:
    """The counters of one run.

    An access is made by a SIMD-group at one source location at one time; a transaction is a 64-byte line of device
    memory that an access touches. 32 adjacent floats are two transactions, 32 floats in 32 rows are 32.
    """

    threads: int
    threadgroups: int
    device_bytes_read: int
    device_bytes_written: int
    device_accesses: int
    device_transactions: int
    threadgroup_bytes_read: int
    threadgroup_bytes_written: int
    threadgroup_accesses: int
    bank_conflicts: int  # turns that accesses took beyond those that 32 banks of 4 bytes need
    barriers: int  # passed by threadgroups
    simd_operations: int  # by SIMD-groups
    matrix_products: int  # of 8 x 8 matrices, by SIMD-groups
    atomics: int  # by threads
    threadgroup_memory: int  # bytes of a threadgroup

    @property
    def device_bytes(self) -> int:
        """Return the bytes read and written."""
        return self.device_bytes_read + self.device_bytes_written

    def __str__(self) -> str:
        width = max(len(field.name) for field in fields(self))
        return "\n".join(f"{field.name:{width}} {getattr(self, field.name):>12,}" for field in fields(self))


class CountersInC(ctypes.Structure):
    """The struct in runtime/traffic.h."""

    _fields_ = tuple((field.name, ctypes.c_uint64) for field in fields(Counters))

    def value(self) -> Counters:
        """Return a Python copy."""
        return Counters(*(getattr(self, field.name) for field in fields(Counters)))

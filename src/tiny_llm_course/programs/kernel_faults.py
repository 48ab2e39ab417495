"""How a kernel fails, in C++ or in Metal."""

from memory_watch.faults import Fault


class KernelFault(Exception):
    """A kernel does what it must not; `about` is how two faults are compared, `notes` are told below."""

    def __init__(self, fault: Fault, about: str = "", notes: tuple[str, ...] = ()) -> None:
        super().__init__(fault.what)
        self.fault, self.about, self.notes = fault, about or fault.what, notes


class NotBuilt(Exception):
    """A kernel does not compile; the message is what the compiler says."""

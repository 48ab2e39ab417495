"""Generate the learner's package from the solution: the same files, with the learner's work taken out."""

from .package import differences, stub_package, write_stubs
from .signatures import Signature, listing, signatures
from .source import stub_source

__all__ = ["Signature", "differences", "listing", "signatures", "stub_package", "stub_source", "write_stubs"]

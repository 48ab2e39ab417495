"""Stubs of files in Python: a module of the solution with the learner's work taken out."""

from .signatures import Signature, listing, signatures
from .source import stub_source

__all__ = ["Signature", "listing", "signatures", "stub_source"]

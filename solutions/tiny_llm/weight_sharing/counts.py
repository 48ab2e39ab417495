"""The counts of a model that shares weights."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Counts:
    """Storage, compute and cache size. Sharing layers reduces only the first."""

    stored: int  # weights in the file, each once
    macs: int  # multiply-adds per token, through all matrices
    cached: int  # numbers per token in the KV caches

"""What is counted of a model that shares weights."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Counts:
    """Three numbers that are alike in no model, and that sharing changes in three ways."""

    stored: int  # weights in the file, each once
    macs: int  # multiplications, each with an addition, by which one token passes through all matrices
    cached: int  # numbers that the caches keep for each token of the text

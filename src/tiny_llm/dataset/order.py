"""Orders and splits that depend on their arguments alone: the same on every machine, in every run."""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Document = TypeVar("Document", bound=Sequence[int])


def shuffled(count: int, *keys: int) -> list[int]:
    """Return the numbers from 0 to count - 1 in an order that depends on the keys, as in shuffled(5, seed, epoch)."""
    order = list(range(count))
    random.Random(" ".join(map(str, keys))).shuffle(order)  # a generator of its own: no global state
    return order


def split_by_document(documents: Sequence[Document], fraction: float) -> tuple[list[Document], list[Document]]:
    """Split documents into training and validation by a hash of their tokens.

    A document is always on the same side, whatever others there are, and so are its exact copies.

    Args:
        documents: the token ids of each.
        fraction: the expected share of validation, from 0 to 1.

    Returns:
        The training documents and the validation documents, each in their order.
    """
    train: list[Document] = []
    validation: list[Document] = []
    for document in documents:
        digest = hashlib.sha256(np.array(document, "<i4").tobytes()).digest()
        number = int.from_bytes(digest[:8], "big") / 2**64  # uniform in [0, 1)
        (validation if number < fraction else train).append(document)
    return train, validation

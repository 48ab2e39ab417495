"""The bytes that keys and values take, in pages and in one array per request."""

from collections.abc import Iterable

import mlx.core as mx

from ..config import ModelConfig


class PageSizes:
    """The bytes of tokens and pages of one model, over all its layers."""

    page_size: int  # tokens per page
    token_bytes: int  # of one token's keys and values
    page_bytes: int  # of one page's

    def __init__(self, config: ModelConfig, page_size: int, dtype: mx.Dtype = mx.float32) -> None:
        """Compute the bytes of a token and of a page.

        Args:
            config: of the model.
            page_size: tokens per page.
            dtype: of keys and values.
        """
        raise NotImplementedError("3.3.2 What pages cost")

    def pages_within(self, cap: int) -> int:
        """Return how many whole pages fit into `cap` bytes.

        Raises:
            ValueError: not even one fits; the message gives both numbers of bytes.
        """
        raise NotImplementedError("3.3.2 What pages cost")

    def waste(self, lengths: Iterable[int]) -> int:
        """Return the bytes that are allocated in pages but unused: the rest of each request's last page.

        Args:
            lengths: how many tokens each request has; may be 0.
        """
        raise NotImplementedError("3.3.2 What pages cost")

    def reserved_waste(self, lengths: Iterable[int], longest: int) -> int:
        """Return the bytes that are unused if each request has one array with the capacity of the longest sequence.

        Args:
            lengths: how many tokens each request has.
            longest: the capacity of each array, in tokens.

        Raises:
            ValueError: a request is longer; the message gives both numbers.
        """
        raise NotImplementedError("3.3.2 What pages cost")

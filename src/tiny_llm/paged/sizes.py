"""What keys and values cost in bytes, in pages and in one array for each request."""

from collections.abc import Iterable

import mlx.core as mx

from ..config import ModelConfig


class PageSizes:
    """The bytes of tokens and pages of one model, over all its layers."""

    page: int  # tokens in a page
    token_bytes: int  # of one token's keys and values
    page_bytes: int  # of a page's

    def __init__(self, config: ModelConfig, page: int, dtype: mx.Dtype = mx.float32) -> None:
        """Count what one token needs.

        Args:
            config: the model's measures.
            page: how many tokens are in a page.
            dtype: of keys and values.
        """
        raise NotImplementedError("3.3.2 What pages cost")

    def pages_within(self, cap: int) -> int:
        """How many whole pages fit into so many bytes.

        Raises:
            ValueError: not even one; the message says both numbers of bytes.
        """
        raise NotImplementedError("3.3.2 What pages cost")

    def waste(self, lengths: Iterable[int]) -> int:
        """Bytes that are taken and hold nothing, if each request has pages: what is empty of its last one.

        Args:
            lengths: how many tokens each request has; none is one of them, too.
        """
        raise NotImplementedError("3.3.2 What pages cost")

    def reserved_waste(self, lengths: Iterable[int], longest: int) -> int:
        """The same, if each request has an array of its own with room for the longest text that there may be.

        Args:
            lengths: how many tokens each request has.
            longest: for how many there is room.

        Raises:
            ValueError: a request is longer; the message says both numbers.
        """
        raise NotImplementedError("3.3.2 What pages cost")

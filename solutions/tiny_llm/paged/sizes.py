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
        self.page = page
        self.token_bytes = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * dtype.size
        self.page_bytes = page * self.token_bytes

    def pages_within(self, cap: int) -> int:
        """How many whole pages fit into so many bytes.

        Raises:
            ValueError: not even one; the message says both numbers of bytes.
        """
        if cap < self.page_bytes:
            raise ValueError(f"no page of {self.page_bytes} bytes fits into {cap} bytes")
        return cap // self.page_bytes

    def waste(self, lengths: Iterable[int]) -> int:
        """Bytes that are taken and hold nothing, if each request has pages: what is empty of its last one.

        Args:
            lengths: how many tokens each request has; none is one of them, too.
        """
        return sum(-length % self.page for length in lengths) * self.token_bytes

    def reserved_waste(self, lengths: Iterable[int], longest: int) -> int:
        """The same, if each request has an array of its own with room for the longest text that there may be.

        Args:
            lengths: how many tokens each request has.
            longest: for how many there is room.

        Raises:
            ValueError: a request is longer; the message says both numbers.
        """
        empty = 0
        for length in lengths:
            if length > longest:
                raise ValueError(f"a request has {length} tokens, but there is room for {longest}")
            empty += longest - length
        return empty * self.token_bytes

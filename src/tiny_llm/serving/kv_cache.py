"""The KV-cache interface that the scheduler uses, and its simplest implementation."""

from typing import Protocol

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..qwen3_cached.cache import KVCache
from .request import Chunk, Request


class KVCacheManager(Protocol):
    """Stores the keys and values of many requests."""

    def validate(self, request: Request) -> None:
        """Raise ValueError, with a message for the user, if the request would not fit even alone."""

    def admit(self, request: Request) -> bool:
        """Admit a request and set its `num_computed_tokens` to how many of its tokens are cached already.

        Returns:
            Whether it is admitted. If not, there is no capacity for it.
        """

    def reserve(self, request: Request, count: int) -> bool:
        """Reserve KV slots for `count` tokens after the computed ones.

        Returns:
            Whether they are reserved. If not, nothing has changed.
        """

    def truncate(self, request: Request, length: int) -> None:
        """Keep the first `length` tokens of a request, and free the slots of all others."""

    def release(self, request: Request) -> None:
        """Remove a request and free what it alone holds."""

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """Append a layer's new keys and values, and compute causal attention of each request over its own tokens.

        Args:
            layer: from 0.
            query: T x H x D, T the tokens of all chunks, concatenated in order; rotated by RoPE.
            key: T x H_kv x D, rotated as well.
            value: T x H_kv x D.
            chunks: the chunks of these tokens. Their slots are reserved.

        Returns:
            T x H x D, in query's dtype.
        """


class DenseKVCache:
    """A `KVCacheManager` with one growing `KVCache` for each request and layer. Its capacity is unlimited."""

    def __init__(self, layers: int) -> None:
        """Create a cache with no requests.

        Args:
            layers: of the model.
        """
        self._layers = layers
        self._caches: dict[Request, list[KVCache]] = {}

    def validate(self, request: Request) -> None:
        """Accept every request."""

    def admit(self, request: Request) -> bool:
        """As `KVCacheManager`."""
        self._caches[request] = [KVCache() for _ in range(self._layers)]
        request.num_computed_tokens = 0
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """As `KVCacheManager`."""
        return True

    def truncate(self, request: Request, length: int) -> None:
        """As `KVCacheManager`."""
        for cache in self._caches[request]:
            cache.rewind(max(0, cache.offset - length))

    def release(self, request: Request) -> None:
        """As `KVCacheManager`."""
        del self._caches[request]

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """Append the new keys and values, and compute each request's attention: see `KVCacheManager.attend`."""
        raise NotImplementedError("3.1.1 Attention of a ragged batch")

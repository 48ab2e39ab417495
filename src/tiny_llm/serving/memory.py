"""Where the keys and values of all requests are, and what a scheduler asks of such a place."""

from typing import Protocol

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..qwen3_cached.cache import KVCache
from .request import Chunk, Request


class Memory(Protocol):
    """Keys and values of many requests."""

    def check(self, request: Request) -> None:
        """A ValueError, in words, if the request could not even be served alone."""

    def begin(self, request: Request) -> bool:
        """Let a request in, and set its `read` to how many of its tokens are there already. False: there is no room."""

    def reserve(self, request: Request, count: int) -> bool:
        """Have room for so many tokens behind those that were read. False, and nothing has changed: there is none."""

    def shorten(self, request: Request, length: int) -> None:
        """Keep the first `length` tokens, and give back the room of all others."""

    def release(self, request: Request) -> None:
        """Let a request go, with all that was its own."""

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """Keep the new keys and values of a layer, and let each query see those of its own request, up to itself.

        Args:
            layer: from 0.
            query: T x H x D, T the tokens of all chunks, one chunk behind the other; turned by RoPE.
            key: T x H_kv x D, turned as well.
            value: T x H_kv x D.
            chunks: whose tokens they are. There is room for them.

        Returns:
            T x H x D, in query's dtype.
        """


class DenseMemory:
    """A cache of its own for each request and layer, which grows as it must. There is always room."""

    def __init__(self, layers: int) -> None:
        """Begin with no requests.

        Args:
            layers: of the model.
        """
        self._layers = layers
        self._caches: dict[Request, list[KVCache]] = {}

    def check(self, request: Request) -> None:
        """Every request is served."""

    def begin(self, request: Request) -> bool:
        """As `Memory`."""
        self._caches[request] = [KVCache() for _ in range(self._layers)]
        request.read = 0
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """As `Memory`."""
        return True

    def shorten(self, request: Request, length: int) -> None:
        """As `Memory`."""
        for cache in self._caches[request]:
            cache.rewind(max(0, cache.offset - length))

    def release(self, request: Request) -> None:
        """As `Memory`."""
        del self._caches[request]

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """As `Memory`."""
        raise NotImplementedError("3.1.1 Attention of a ragged batch")

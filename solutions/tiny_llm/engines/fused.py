"""The fused engine for many requests: tokens to logits in one operation, over pages that the extension allocates."""

import mlx.core as mx

from ..config import ModelConfig
from ..kernels.fused import native_model
from ..kernels.ops import extension
from ..paged.kv_cache import PagedKVCache
from ..serving.kv_cache import KVCacheManager
from ..serving.request import Chunk, Request

NUMBER = 4  # bytes: keys and values are float32


class NativePages:
    """The contents of all pages, which `RaggedFusedModel` reads and writes in place."""

    def __init__(self, config: ModelConfig, pages: int, page_size: int) -> None:
        """Create storage for `pages` pages. A page takes memory only once it has been written.

        Args:
            config: of the model.
            pages: how many there are.
            page_size: tokens per page.
        """
        self.page_size, self.pages = page_size, pages
        sizes = config.num_hidden_layers, pages, page_size, config.num_key_value_heads, config.head_dim
        self.held = extension().new_pages(*sizes)

    def attend(
        self,
        layer: int,
        query: mx.array,
        key: mx.array,
        value: mx.array,
        chunks: list[Chunk],
        block_tables: list[list[int]],
    ) -> mx.array:
        """As `PagedArrays.attend`, for a model that is not fused. Float32, computed when this returns."""
        starts, lengths = [chunk.start for chunk in chunks], [len(chunk.tokens) for chunk in chunks]
        arrays = (mx.contiguous(x.astype(mx.float32)) for x in (query, key, value))
        attended: mx.array = extension().attend_in_pages(self.held, layer, *arrays, lengths, starts, block_tables)
        return attended.astype(query.dtype)


class NativeSlots:
    """A `KVCacheManager` in which each request has one slot: a page as long as the longest sequence, never shared."""

    def __init__(self, config: ModelConfig, slots: int, tokens: int) -> None:
        """Create a cache with no requests.

        Args:
            config: of the model.
            slots: the maximum number of requests.
            tokens: the capacity of a slot.
        """
        self.storage = NativePages(config, slots, tokens)
        self.block_tables: dict[Request, list[int]] = {}
        self._free = list(range(slots))

    def validate(self, request: Request) -> None:
        """As `KVCacheManager`."""
        if (needed := len(request.prompt) + request.max_tokens) > self.storage.page_size:
            raise ValueError(f"the request may grow to {needed} tokens, but a slot holds {self.storage.page_size}")

    def admit(self, request: Request) -> bool:
        """As `KVCacheManager`."""
        if not self._free:
            return False
        self.block_tables[request] = [self._free.pop()]
        request.num_computed_tokens = 0
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """As `KVCacheManager`. All of a request's slot is reserved from the start."""
        return request.num_computed_tokens + count <= self.storage.page_size

    def truncate(self, request: Request, length: int) -> None:
        """As `KVCacheManager`. The request keeps its slot."""

    def release(self, request: Request) -> None:
        """As `KVCacheManager`."""
        self._free += self.block_tables.pop(request)

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """As `KVCacheManager`."""
        block_tables = [self.block_tables[chunk.request] for chunk in chunks]
        return self.storage.attend(layer, query, key, value, chunks, block_tables)


class RaggedFusedModel:
    """`RaggedModel` with quantized matrices, in one operation."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], int8: bool = False) -> None:
        """Collect the weights.

        Args:
            config: of the model.
            weights: by their names in a checkpoint.
            int8: whether the activations may be rounded to 8 bits, with one scale per token.

        Raises:
            KeyError: a weight is missing.
            ValueError: a matrix is not quantized to 4 bits.
        """
        self.int8, self.dtype = int8, weights["model.norm.weight"].dtype
        self.held = native_model(config, weights)

    def __call__(self, chunks: list[Chunk], kv_cache: KVCacheManager) -> mx.array:
        """Run one forward pass over the chunks, as `RaggedModel` does. The logits are computed when this returns.

        Args:
            chunks: at least one, each with at least one token and of another request; their slots are reserved.
            kv_cache: a `PagedKVCache` on `NativePages`, or `NativeSlots`.

        Returns:
            R x V, in the weights' dtype.

        Raises:
            TypeError: kv_cache is of another type.
            IndexError: there is no such token or page; the message gives its number.
            ValueError: there are more tokens than max_position_embeddings, or than the pages hold.
        """
        if not isinstance(kv_cache, PagedKVCache | NativeSlots) or not isinstance(kv_cache.storage, NativePages):
            raise TypeError(f"the fused model needs a KV cache on NativePages, not {type(kv_cache).__name__}")
        logits: mx.array = extension().ragged_model(
            self.held,
            kv_cache.storage.held,
            [token for chunk in chunks for token in chunk.tokens],
            [len(chunk.tokens) for chunk in chunks],
            [chunk.start for chunk in chunks],
            [chunk.num_logits for chunk in chunks],
            [kv_cache.block_tables[chunk.request] for chunk in chunks],
            self.int8,
        )
        return logits.astype(self.dtype)

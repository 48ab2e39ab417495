"""The fused engine for many requests: their tokens to logits in one operation, over pages in the extension's memory."""

import mlx.core as mx

from ..config import ModelConfig
from ..kernels.fused import held_model
from ..kernels.ops import extension
from ..paged.memory import PagedMemory
from ..serving.memory import Memory
from ..serving.request import Chunk, Request

NUMBER = 4  # bytes: keys and values are float32


class NativePages:
    """The numbers of all pages, where `RaggedFusedModel` reads and writes them."""

    def __init__(self, config: ModelConfig, pages: int, page: int) -> None:
        """Have room for so many. A page takes memory only once it has been written.

        Args:
            config: the model's measures.
            pages: how many there are.
            page: tokens in one.
        """
        self.page, self.pages = page, pages
        sizes = config.num_hidden_layers, pages, page, config.num_key_value_heads, config.head_dim
        self.held = extension().new_pages(*sizes)

    def attend(
        self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk], tables: list[list[int]]
    ) -> mx.array:
        """As `PagedArrays.attend`, for a model that is not fused. Float32, computed when this returns."""
        starts, lengths = [chunk.start for chunk in chunks], [len(chunk.tokens) for chunk in chunks]
        arrays = (mx.contiguous(x.astype(mx.float32)) for x in (query, key, value))
        attended: mx.array = extension().attend_in_pages(self.held, layer, *arrays, lengths, starts, tables)
        return attended.astype(query.dtype)


class NativeSlots:
    """A `Memory` in which each request has one long page: a slot, as long as a request may be. Nothing is shared."""

    def __init__(self, config: ModelConfig, slots: int, tokens: int) -> None:
        """Begin with no requests.

        Args:
            config: the model's measures.
            slots: how many requests there are at most.
            tokens: that a slot has room for.
        """
        self.storage = NativePages(config, slots, tokens)
        self.tables: dict[Request, list[int]] = {}
        self._free = list(range(slots))

    def check(self, request: Request) -> None:
        """As `Memory`."""
        if (needed := len(request.prompt) + request.max_tokens) > self.storage.page:
            raise ValueError(f"the request may grow to {needed} tokens, but a slot has room for {self.storage.page}")

    def begin(self, request: Request) -> bool:
        """As `Memory`."""
        if not self._free:
            return False
        self.tables[request] = [self._free.pop()]
        request.read = 0
        return True

    def reserve(self, request: Request, count: int) -> bool:
        """As `Memory`. A slot that was given has room to its end."""
        return request.read + count <= self.storage.page

    def shorten(self, request: Request, length: int) -> None:
        """As `Memory`. The slot stays the request's."""

    def release(self, request: Request) -> None:
        """As `Memory`."""
        self._free += self.tables.pop(request)

    def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk]) -> mx.array:
        """As `Memory`."""
        return self.storage.attend(layer, query, key, value, chunks, [self.tables[chunk.request] for chunk in chunks])


class RaggedFusedModel:
    """`RaggedModel` with quantized matrices, in one operation."""

    def __init__(self, config: ModelConfig, weights: dict[str, mx.array], int8: bool = False) -> None:
        """Gather the weights.

        Args:
            config: the model's measures.
            weights: by the names of a checkpoint.
            int8: whether the activations may be rounded to 8 bits, each token's by itself.

        Raises:
            KeyError: a weight is missing.
            ValueError: a matrix is not quantized to 4 bits.
        """
        self.int8, self.dtype = int8, weights["model.norm.weight"].dtype
        self.held = held_model(config, weights)

    def __call__(self, chunks: list[Chunk], memory: Memory) -> mx.array:
        """Read the chunks, as `RaggedModel` does. The logits are computed when this returns.

        Args:
            chunks: at least one, each with at least one token and of another request; memory has room for them.
            memory: a `PagedMemory` on `NativePages`, or `NativeSlots`.

        Returns:
            R x V, in the weights' dtype.

        Raises:
            TypeError: memory is another one.
            IndexError: there is no such token or page; the message says which.
            ValueError: there are more tokens than max_position_embeddings, or than pages for them.
        """
        if not isinstance(memory, PagedMemory | NativeSlots) or not isinstance(memory.storage, NativePages):
            raise TypeError(f"the fused model reads pages in its own memory, not {type(memory).__name__}")
        logits: mx.array = extension().ragged_model(
            self.held,
            memory.storage.held,
            [token for chunk in chunks for token in chunk.tokens],
            [len(chunk.tokens) for chunk in chunks],
            [chunk.start for chunk in chunks],
            [chunk.scored for chunk in chunks],
            [memory.tables[chunk.request] for chunk in chunks],
            self.int8,
        )
        return logits.astype(self.dtype)

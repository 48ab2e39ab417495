"""Pages whose attention is computed by the Metal kernel."""

import mlx.core as mx

from ..metal.paged import paged_attention
from ..serving.request import Chunk
from .storage import PagedArrays


class MetalPages(PagedArrays):
    """`PagedArrays` whose pages are read in place, by `paged_attention.metal`."""

    def attend(
        self,
        layer: int,
        query: mx.array,
        key: mx.array,
        value: mx.array,
        chunks: list[Chunk],
        block_tables: list[list[int]],
    ) -> mx.array:
        """As `PagedArrays.attend`, with one launch per chunk."""
        self.write(layer, key, value, chunks, block_tables)
        attended, at = [], 0
        for chunk, block_table in zip(chunks, block_tables, strict=True):
            own = query[at : (at := at + len(chunk.tokens))]  # L x H x D
            attended.append(paged_attention(own, self.keys[layer], self.values[layer], block_table, chunk.end))
        return mx.concatenate(attended)

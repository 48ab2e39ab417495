"""The contents of pages: for each layer one array of keys and one of values, divided into pages."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..serving.request import Chunk


class PagedArrays:
    """Stores keys and values of all layers. A page number means the same page in the arrays of every layer."""

    def __init__(
        self, layers: int, pages: int, page_size: int, kv_heads: int, dims: int, dtype: mx.Dtype = mx.float32
    ) -> None:
        """Allocate all pages at once; the arrays never grow or move.

        Args:
            layers, kv_heads, dims: of the model.
            pages: how many there are.
            page_size: tokens per page.
            dtype: of keys and values.
        """
        self.page_size, self.pages = page_size, pages
        shape = pages, kv_heads, page_size, dims
        self.keys, self.values = ([mx.zeros(shape, dtype) for _ in range(layers)] for _ in "kv")
        mx.eval(self.keys, self.values)

    def attend(
        self,
        layer: int,
        query: mx.array,
        key: mx.array,
        value: mx.array,
        chunks: list[Chunk],
        block_tables: list[list[int]],
    ) -> mx.array:
        """Write new keys and values into their pages, and compute causal attention of each request over its own tokens.

        Args:
            layer, query, key, value, chunks: as for `KVCacheManager.attend`.
            block_tables: for each chunk, that of its request.

        Returns:
            T x H x D, in query's dtype.
        """
        self.write(layer, key, value, chunks, block_tables)
        attended, at = [], 0
        for chunk, block_table in zip(chunks, block_tables, strict=True):
            own = query[at : (at := at + len(chunk.tokens))].swapaxes(0, 1)[None]  # 1 x H x L x D
            pages = mx.array(block_table[: -(-chunk.end // self.page_size)])
            keys, values = (gather_pages(x[layer], pages)[:, :, : chunk.end] for x in (self.keys, self.values))
            mask = "causal" if len(chunk.tokens) > 1 else None  # a single token, the last one, attends to all
            attended.append(scaled_dot_product_attention_grouped(own, keys, values, mask=mask)[0].swapaxes(0, 1))
        return mx.concatenate(attended) if len(attended) > 1 else attended[0]

    def write(
        self, layer: int, key: mx.array, value: mx.array, chunks: list[Chunk], block_tables: list[list[int]]
    ) -> None:
        """Write the keys and values of all chunks into their pages, in one assignment each.

        Args:
            layer, key, value, chunks, block_tables: as for `attend`.
        """
        slots = [
            (block_table[position // self.page_size], position % self.page_size)
            for chunk, block_table in zip(chunks, block_tables, strict=True)
            for position in range(chunk.start, chunk.end)
        ]
        pages, offsets = mx.array([page for page, _ in slots]), mx.array([offset for _, offset in slots])  # T each
        # MLX writes in place, as nothing else refers to the array.
        self.keys[layer][pages, :, offsets] = key
        self.values[layer][pages, :, offsets] = value


def gather_pages(pool: mx.array, pages: mx.array) -> mx.array:
    """Copy a request's pages into one contiguous array.

    Args:
        pool: of one layer, pages x H_kv x page x D.
        pages: P page numbers, in the order of the request's tokens.

    Returns:
        1 x H_kv x (P * page) x D.
    """
    return pool[pages].swapaxes(0, 1).flatten(1, 2)[None]

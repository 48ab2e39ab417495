"""Where the numbers are: for each layer one array of keys and one of values, cut into pages that all requests share."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from ..serving.request import Chunk


class PagedArrays:
    """Keys and values of all layers. A page has one number, and a place in the arrays of every layer."""

    def __init__(
        self, layers: int, pages: int, page: int, kv_heads: int, dims: int, dtype: mx.Dtype = mx.float32
    ) -> None:
        """Make room for all pages at once. It neither grows nor moves.

        Args:
            layers, kv_heads, dims: of the model.
            pages: how many there are.
            page: how many tokens are in one.
            dtype: of keys and values.
        """
        self.page, self.pages = page, pages
        self.keys, self.values = ([mx.zeros((pages, kv_heads, page, dims), dtype) for _ in range(layers)] for _ in "kv")
        mx.eval(self.keys, self.values)

    def attend(
        self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: list[Chunk], tables: list[list[int]]
    ) -> mx.array:
        """Write new keys and values into their pages, and let each query see those of its own request, up to itself.

        Args:
            layer, query, key, value, chunks: as for `Memory.attend`.
            tables: the pages of each chunk's request, in their order.

        Returns:
            T x H x D, in query's dtype.
        """
        self.write(layer, key, value, chunks, tables)
        attended, at = [], 0
        for chunk, table in zip(chunks, tables, strict=True):
            own = query[at : (at := at + len(chunk.tokens))].swapaxes(0, 1)[None]  # 1 x H x L x D
            pages = mx.array(table[: -(-chunk.end // self.page)])
            keys, values = (gathered(x[layer], pages)[:, :, : chunk.end] for x in (self.keys, self.values))
            mask = "causal" if len(chunk.tokens) > 1 else None  # a last token alone sees all
            attended.append(scaled_dot_product_attention_grouped(own, keys, values, mask=mask)[0].swapaxes(0, 1))
        return mx.concatenate(attended) if len(attended) > 1 else attended[0]

    def write(self, layer: int, key: mx.array, value: mx.array, chunks: list[Chunk], tables: list[list[int]]) -> None:
        """Put the keys and values of all chunks where they belong, in one assignment each.

        Args:
            layer, key, value, chunks, tables: as for `attend`.
        """
        slots = [
            (table[position // self.page], position % self.page)
            for chunk, table in zip(chunks, tables, strict=True)
            for position in range(chunk.start, chunk.end)
        ]
        pages, places = mx.array([page for page, _ in slots]), mx.array([place for _, place in slots])  # T each
        # MLX writes into the array that is there, as nobody else holds it.
        self.keys[layer][pages, :, places] = key
        self.values[layer][pages, :, places] = value


def gathered(pool: mx.array, pages: mx.array) -> mx.array:
    """What is in a request's pages, side by side in a new array.

    Args:
        pool: of one layer, pages x H_kv x page x D.
        pages: P, their numbers in the order of the text.

    Returns:
        1 x H_kv x (P * page) x D.
    """
    return pool[pages].swapaxes(0, 1).flatten(1, 2)[None]

"""Day 4: keys and values in pages of a pool, and the attention over them in NumPy float64, by MLX and by PyTorch.

The placement of the pages must make no difference. All other slots of the pool hold other requests' numbers, or NaN.
"""

import io
import math
from contextlib import contextmanager

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from tests.week2.formulas_day7 import kernel64

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32, to_float64

HEADS = [(1, 1), (2, 1), (5, 5), (6, 2), (8, 2), (12, 4)]
HELD = [math.nan, math.inf, 3e38]


def paged64(
    query: Array64,
    keys: Array64,
    values: Array64,
    table: list[int],
    tokens: int,
    scale: float | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Causal attention of the last L tokens, L x H x D, over the request's gathered pages; float32 in every dtype."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    own_keys, own_values = (side_by_side(pool, table, tokens) for pool in (keys, values))
    return r(kernel64(query, own_keys, own_values, scale, r=in_float32(r)))


def group64(
    queries: Array64,
    keys: Array64,
    values: Array64,
    table: list[int],
    tokens: int,
    kv_head: int,
    scale: float,
    *,
    r: Round = exact,
) -> Array64:
    """The same for one token and the query heads of one KV head, G x D."""
    own_keys, own_values = (pool[:, kv_head : kv_head + 1] for pool in (keys, values))
    attended: Array64 = paged64(queries[None], own_keys, own_values, table, tokens, scale, r=r)[0]
    return attended


def side_by_side(pool: Array64, table: list[int], tokens: int) -> Array64:
    """Gather a request's tokens, H_kv x tokens x D, from a pool, pages x H_kv x page_size x D."""
    pages = np.swapaxes(pool[table], 0, 1)  # H_kv x P x page x D
    return pages.reshape(pages.shape[0], -1, pages.shape[-1])[:, :tokens]


def pooled(seed, tokens, page, kv_heads=2, dims=8, dtype=mx.float32, others=3, spare=0):
    """Return keys and values, pages x H_kv x page_size x D, and a shuffled block table for the given number of tokens.

    `others` pages of the pool are not the request's. The block table has `spare` pages without tokens yet.
    """
    count = math.ceil(tokens / page) + spare
    table = np.random.default_rng(seed).permutation(count + others)[:count].tolist()
    draw, shape = normals(seed + 1, dtype), (count + others, kv_heads, page, dims)
    return draw(*shape), draw(*shape), table


def of_others(pool: mx.array, table: list[int], tokens: int) -> mx.array:
    """Return which slots of the pool hold none of the request's tokens: pages x 1 x page_size x 1."""
    pages, _, page, _ = pool.shape
    free = np.ones((pages, 1, page, 1), bool)
    for token in range(tokens):
        free[table[token // page], 0, token % page] = False
    return mx.array(free)


def paged_inputs(seed, length=4, tokens=11, page=4, heads=6, kv_heads=2, dims=8, dtype=mx.float32, **more):
    """Queries, keys, values, block table and tokens; H, H_kv, L, D, page size, pages and group size 3 all differ."""
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, dtype, **more)
    return normals(seed + 2, dtype)(length, heads, dims), keys, values, table, tokens


def with_held(inputs, held):
    """The same, with this value in every slot that is not the request's."""
    queries, keys, values, table, tokens = inputs
    free = of_others(keys, table, tokens)
    return queries, mx.where(free, held, keys), mx.where(free, held, values), table, tokens


def pending_operations(*arrays):
    """Return how many operations the graph of some arrays still has to compute, names of arrays included."""
    mx.export_to_dot(graph := io.StringIO(), *arrays)
    return graph.getvalue().count("label")


@contextmanager
def evaluated_graphs():
    """Record in the list it returns how many operations each `mx.eval` and `mx.async_eval` has to compute."""
    sizes, originals = [], (mx.eval, mx.async_eval)

    def counting(original):
        def evaluate(*trees):
            arrays = [x for _, x in tree_flatten(trees) if isinstance(x, mx.array)]
            sizes.append(pending_operations(*arrays) if arrays else 0)
            return original(*trees)

        return evaluate

    mx.eval, mx.async_eval = map(counting, originals)
    try:
        yield sizes
    finally:
        mx.eval, mx.async_eval = originals


def by_mlx(queries, keys, values, table, tokens, scale):
    """MLX's own attention over the request's gathered keys and values."""
    own = (mx.array(side_by_side(to_float64(pool), table, tokens), mx.float32)[None] for pool in (keys, values))
    attended = mx.fast.scaled_dot_product_attention(queries.swapaxes(0, 1)[None], *own, scale=scale, mask="causal")
    return to_float64(attended[0].swapaxes(0, 1))


def sdpa(torch, q, k, v):
    """PyTorch's attention with as many queries as tokens: L x H x D, and H_kv x L x D."""
    given = q.transpose(0, 1)[None], k[None], v[None]
    options = {"is_causal": True, "enable_gqa": True, "scale": 0.5}
    return torch.nn.functional.scaled_dot_product_attention(*given, **options)[0].transpose(0, 1)


def by_torch(pytorch, queries, keys, values, table, tokens):
    """PyTorch's answer for the request's gathered keys and values."""
    return pytorch(
        sdpa, queries, *(mx.array(side_by_side(to_float64(x), table, tokens), mx.float32) for x in (keys, values))
    )

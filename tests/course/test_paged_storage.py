"""The given storage of week 3: new keys and values are written where they belong, and into the memory that is there."""

import mlx.core as mx
import numpy as np
import pytest

from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes

load_solution()
from tiny_llm_solution.paged.kernels import paged_attend, paged_flash  # noqa: E402
from tiny_llm_solution.paged.storage import PagedArrays  # noqa: E402
from tiny_llm_solution.serving.request import Chunk, Request  # noqa: E402


@pytest.mark.parametrize("page", [1, 3, 4])
def test_every_token_is_at_its_place(page):
    draw, storage = normals(1), PagedArrays(2, 12, page, 3, 5)
    first, second = Request([0] * 4, 9), Request([0] * 9, 9)
    chunks = [Chunk(second, 5, [0] * 4, 1), Chunk(first, 0, [0] * 3, 0)]
    tables = [[11, 0, 7, 2, 9, 3, 8, 1, 6], [5, 10, 4]]
    key, value = draw(7, 3, 5), draw(7, 3, 5)
    storage.write(1, key, value, chunks, tables)
    expected = np.zeros((2, 12, 3, page, 5), np.float32)
    rows = [
        (table, position)
        for chunk, table in zip(chunks, tables, strict=True)
        for position in range(chunk.start, chunk.end)
    ]
    for row, (table, position) in enumerate(rows):
        for which, x in enumerate((key, value)):
            expected[which, table[position // page], :, position % page] = np.array(x[row])
    assert np.array_equal(np.array(mx.stack([storage.keys[1], storage.values[1]])), expected)
    assert not mx.any(storage.keys[0]).item()


def test_no_token_copies_the_pages():
    """16 MB of keys in a layer, and as many of values: a step takes a small part of it."""
    storage, request = PagedArrays(1, 512, 16, 8, 64), Request([0] * 40, 9)
    query, new = mx.ones((1, 8, 64)), mx.ones((1, 8, 64))
    mx.eval(query, new)

    def step():
        return storage.attend(0, query, new, new, [Chunk(request, 40, [0], 1)], [[5, 9, 2]])

    mx.eval(step())
    assert peak_bytes(step) < storage.keys[0].nbytes // 8


@pytest.mark.parametrize(("table", "what"), [([0, -1], "0 to 2"), ([3, 0], "0 to 2"), ([1], "1 pages of 4")])
def test_kernels_refuse_bad_block_tables(table, what):
    keys = mx.zeros((3, 2, 4, 8))
    for kernel, queries, kv_head in ((paged_attend, mx.ones((3, 8)), (0,)), (paged_flash, mx.ones((1, 6, 8)), ())):
        with pytest.raises(ValueError, match=what):
            kernel(queries, keys, keys, table, 5, *kv_head, 1.0)

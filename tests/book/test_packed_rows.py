"""The widget of week 5, day 2: its rows, mask and leaks are those of the solution, and it needs no mouse."""

import mlx.core as mx
import numpy as np
import pytest
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


def test_packed_rows_are_the_solution_s(page):
    from tiny_llm_solution.dataset.packing import document_mask, pack_documents

    widget = Widget(page, "packed-rows")
    data = widget.data()
    for lengths, length in (
        ((3, 2, 5, 4), 8),
        ((1, 1, 1, 1), 4),
        ((10, 9, 8, 7), 5),
        ((4, 10, 2, 6), 12),
        ((3, 3, 3, 3), 8),
    ):
        for masked in (True, False):
            view = dict(zip("abcd", lengths, strict=True), length=length, masked=masked, token=6)
            state = widget.change(**view)
            documents = [each["ids"][:count] for each, count in zip(data["documents"], lengths, strict=True)]
            rows = pack_documents(documents, length, data["eos"])
            for name in ("tokens", "targets", "document_ids", "positions"):
                assert state[name] == getattr(rows, name).tolist()
            causal = mx.tri(length, dtype=mx.bool_)
            mask = np.array(
                document_mask(rows.document_ids)[:, 0]
                if masked
                else mx.broadcast_to(causal, (len(rows), length, length))
            )
            assert state["mask"] == mask.astype(int).tolist()
            row, at = divmod(state["token"], length)
            assert state["seen"] == [row * length + int(key) for key in np.flatnonzero(mask[row, at])]
            ids = np.array(rows.document_ids)
            other = (ids[:, :, None] != ids[:, None, :]) & (ids >= 0)[:, :, None]
            assert state["leaks"] == int((mask & other).sum())
            assert state["counted"] == sum(lengths)


@pytest.mark.parametrize("_", range(3))
def test_packed_rows_by_keyboard(page, _):
    widget = Widget(page, "packed-rows")
    widget.focus("#next")
    assert widget.press("ArrowRight")["token"] == 6
    assert widget.press("ArrowLeft", "ArrowLeft")["token"] == 4
    widget.focus("#length")
    assert widget.press("Home")["length"] == 4
    widget.focus("[name=masked]")
    assert widget.press("Space")["leaks"] > 0
    assert page.url == widget.address

"""Two threads may read Python at once: what Python itself, before 3.11.8 and 3.12.2, does not always survive."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tiny_llm_course.source import parsing


@pytest.fixture
def threads_change_places_often():
    """Also while a tree is being built: the garbage collector, which may run there, calls back into Python."""

    def call_back(phase, info):
        sum(range(50))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(call_back)
    yield
    gc.callbacks.remove(call_back)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("threads_change_places_often")
def test_in_threads():
    source = (Path(parsing.__file__).parent / "merge" / "units.py").read_text(encoding="utf-8")
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(parsing.parse, [source] * 400))
    assert {len(tree.body) for tree in trees} == {len(parsing.parse(source).body)}
    assert parsing.parse_expression("a + b").body.lineno == 1

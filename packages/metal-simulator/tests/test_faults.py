"""Each kind of fault, planted in at least three kernels, is named with its line."""

from collections import defaultdict

import pytest

from metal_simulator import KernelFault, Kind

from .planted import PLANTED
from .planting import Planted
from .right.elementwise import AXPY
from .right.reductions import LAYER_NORM


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_is_named(planted: Planted):
    with pytest.raises(KernelFault) as caught:
        planted.case.run(planted.source)
    fault = caught.value
    assert fault.kind == planted.kind
    assert planted.says in fault.message
    assert fault.kernel == planted.case.name
    if planted.lines:
        assert fault.line is not None
        line = planted.source.split("\n")[fault.line - 1]
        assert fault.code == line
        lines = [line]
        if fault.other:
            lines.append(planted.source.split("\n")[fault.other.line - 1])
        assert any(words in one for words in planted.lines for one in lines)
        assert f"line {fault.line} " in str(fault)


def test_each_kind_is_planted_in_three_kernels():
    kernels = defaultdict(set)
    for planted in PLANTED:
        kernels[planted.kind].add(planted.case.name)
    assert {kind for kind, names in kernels.items() if len(names) >= 3} == set(Kind)


def test_names_a_line_of_the_header():
    with pytest.raises(KernelFault) as caught:
        LAYER_NORM.run(header=LAYER_NORM.header.replace("if (n == 0)", "if (m == 0)"))
    assert caught.value.in_header
    assert "line 9 of the header" in str(caught.value)
    assert "if (m == 0)" in caught.value.code


def test_a_thread_has_only_so_much_memory_of_its_own():
    source = """
    float mine[100000];
    for (uint i = 0; i < 100000; i++) mine[i] = x[i % 100];
    out[thread_position_in_grid.x] = mine[uint(y[0] * 0) + thread_position_in_grid.x] * alpha;
"""
    with pytest.raises(KernelFault, match="200,000 bytes") as caught:
        AXPY.run(source)
    assert caught.value.kind is Kind.TOO_MUCH_MEMORY


def test_says_both_lines_of_a_race():
    planted = next(p for p in PLANTED if p.kind is Kind.RACE and p.case.name == "transpose")
    with pytest.raises(KernelFault) as caught:
        planted.case.run(planted.source)
    fault = caught.value
    assert fault.other is not None
    other = planted.source.split("\n")[fault.other.line - 1]
    assert {"tile[in.x][in.y]" in line for line in (fault.code, other)} == {True, False}
    assert str(fault.other) in fault.message
    assert fault.thread is not None
    assert fault.buffer == "tile"

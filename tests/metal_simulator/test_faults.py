"""Each kind of fault, planted in at least three kernels, is named with its line."""

from collections import defaultdict

import pytest

from metal_simulator import KernelFault, Kind

from .planted import PLANTED, Planted
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
        assert any(words in line for words in planted.lines)
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


def test_says_both_lines_of_a_race():
    tree = next(p for p in PLANTED if p.kind is Kind.RACE and p.case.name == "transpose")
    with pytest.raises(KernelFault) as caught:
        tree.case.run(tree.source)
    fault = caught.value
    assert fault.other is not None
    assert "tile[in.x][in.y]" in tree.source.split("\n")[fault.other.line - 1]
    assert str(fault.other) in fault.message
    assert fault.thread is not None
    assert fault.buffer == "tile"

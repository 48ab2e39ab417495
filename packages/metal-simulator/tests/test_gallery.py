"""Each kernel of the README's gallery has the fault that is shown below it, and is right once it is mended."""

import re
from typing import Any

import numpy as np
import pytest

from metal_simulator import KernelFault, metal_library

from .gallery import SHOWN
from .test_readme import README

GALLERY = re.findall(
    r"```metal\n(kernel void (\w+)\(.*?)```\n\n```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL
)


def test_all_are_shown():
    assert [name for _, name, _ in GALLERY] == list(SHOWN)


@pytest.mark.parametrize(("source", "name", "fault"), GALLERY, ids=lambda text: text if text in SHOWN else "")
def test_the_fault_is_found_and_mended(source: str, name: str, fault: str):
    shown = SHOWN[name]
    launch: dict[str, Any] = {
        "buffers": shown.buffers,
        "grid": (shown.threads, 1, 1),
        "threadgroup": (shown.threadgroup, 1, 1),
    }
    with pytest.raises(KernelFault) as found:
        metal_library(source)[name](**launch)
    assert f"{found.value}\n" == fault
    for old, new in shown.changes.items():
        assert source.count(old) == 1
        source = source.replace(old, new)
    (out,) = metal_library(source)[name](**launch).values()
    np.testing.assert_allclose(np.array(out), shown.expected, rtol=1e-5, atol=1e-6)

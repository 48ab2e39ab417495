"""Kernels that tests compile are kept for the session, away from those of the machine."""

import os
import shutil
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of this session's own, unless one is named."""
    if not ("METAL_SIMULATOR_CXX" in os.environ or any(map(shutil.which, ("c++", "g++", "clang++")))):
        pytest.skip("not run here: needs a C++ compiler")
    with pytest.MonkeyPatch.context() as patch:
        if "METAL_SIMULATOR_CACHE" not in os.environ:
            patch.setenv("METAL_SIMULATOR_CACHE", str(tmp_path_factory.mktemp("metal")))
        yield

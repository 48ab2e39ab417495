"""The example of the README prints what stands below it."""

import re
from pathlib import Path

import metal_simulator


def test_the_example_prints_what_it_says(capsys):
    text = (Path(metal_simulator.__file__).parent / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert found
    exec(compile(found[1], "README.md", "exec"), {})
    assert capsys.readouterr().out == found[2]

"""The README's first example prints the text below it."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_first_example_prints_what_it_says(capsys):
    found = re.search(
        r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found
    exec(compile(found[1], "README.md", "exec"), {})
    assert capsys.readouterr().out == found[2]

"""A chapter's facts become a list, with each folder named once."""

import pytest

from tiny_llm_course.dev.book.facts import with_facts

pytestmark = pytest.mark.maintainers
PAGE = """# 9.9 A day

**Needs** [day 1](day1.md). No GPU needed.
**Time** 20 minutes. **You edit** `src/a/one.py`, `src/a/two.py`, `src/b/three.cpp`.
**Before**: nothing,
nowhere. **After**: **something**.

## Next

**Needs** nothing.
"""


def test_the_facts_are_a_list() -> None:
    page = with_facts(PAGE)
    head, _, rest = page.partition("</dl>")
    assert rest.strip().startswith("## Next")
    assert "**Needs** nothing." in rest
    assert head.count("<dt>") == 5
    for name, said in (
        ("Needs", "[day 1](day1.md). No GPU needed."),
        ("Time", "20 minutes."),
        ("You edit", "`one.py`, `two.py` in `src/a`; `three.cpp` in `src/b`"),
        ("Before", "nothing,\nnowhere."),
        ("After", "**something**."),
    ):
        assert f"<dt>{name}</dt><dd>\n\n{said}\n\n</dd>" in head


@pytest.mark.parametrize("page", ["# A page\n\nText.\n", "# A page\n\nText.\n\n**Needs** later.\n\n"])
def test_a_page_without_facts_stays_as_it_is(page: str) -> None:
    assert with_facts(page) == page

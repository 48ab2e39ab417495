"""The book is built, and what it says is held against the course: its names, commands, outputs, links and numbers."""

import itertools
import json
import re
import subprocess
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest
from tests.course.fences import fences

from tiny_llm_course.commands.cli import cli
from tiny_llm_course.course import file_paths
from tiny_llm_course.course.entities import Day
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book import current, page_metadata, parts
from tiny_llm_course.dev.book.page_metadata import build_book
from tiny_llm_course.dev.book.wrapping import WIDTH, wrapped, wrapped_c
from tiny_llm_course.paths import BOOK, ROOT, SOLUTION

pytestmark = pytest.mark.maintainers
SOURCE = BOOK / "src"
PAGES = sorted(path for path in SOURCE.rglob("*.md") if path.name != "SUMMARY.md" and path.parent != parts.FOLDER)
DAYS = load_course().days()
# Programs of the course's packages, which `pdm run` starts without a script of ours.
PROGRAMS = {"lint-imports", "mdbook", "mypy", "pip", "pre-commit", "pytest", "python", "ruff", "typos"}

COLUMNS = 124  # that stand side by side where the page is as wide as it gets
# What chapters print bold besides the terms that they explain.
NO_TERMS = {"Needs", "GPU", "Before", "After", "No positions at all"}


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def day_id(day: Day) -> str:
    return day.name


every_page = pytest.mark.parametrize("page", PAGES, ids=page_id)
every_text = pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("*.md"))], ids=page_id)
every_day = pytest.mark.parametrize("day", DAYS, ids=day_id)


# The built book


class Html(HTMLParser):
    """The ids of a page, where its links lead, what it loads, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        self.links += [values["href"]] if tag == "a" and "href" in values else []
        if tag not in ("a", "base") and values.get("rel") != "canonical":
            self.loads += [values[name] for name in ("src", "href") if name in values]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built book."""
    folder = tmp_path_factory.mktemp("book")
    done = build_book(folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # mdBook leaves with 0 after most errors: what it logs is what counts.
    assert done.returncode == 0, done.stdout
    assert not re.search(r"\b(WARN|ERROR)\b", done.stdout), done.stdout
    return folder


@pytest.fixture(scope="session")
def html(built: Path) -> dict[Path, Html]:
    """Every page but the one for addresses that do not exist, whose links start from the site's root."""
    pages = [path for path in built.rglob("*.html") if path.name not in ("404.html", "toc.html")]
    return {path: Html(path.read_text(encoding="utf-8")) for path in pages}


def test_every_page_is_built(html: dict[Path, Html], built: Path) -> None:
    missing = [page_id(page) for page in PAGES if built / page.relative_to(SOURCE).with_suffix(".html") not in html]
    assert not missing, "not in SUMMARY.md"


def test_links_fragments_and_files_are_there(html: dict[Path, Html], built: Path) -> None:
    broken = []
    for path, page in html.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or link == "#":
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not goal.is_file() or (
                parts.fragment and goal in html and unquote(parts.fragment) not in html[goal].ids
            ):
                broken.append(f"{path.relative_to(built)}: {link}")
    assert not broken


def test_links_to_other_sites_are_safe(html: dict[Path, Html]) -> None:
    """They are not followed: a test must not depend on them."""
    assert not [link for page in html.values() for link in page.links if urlsplit(link).scheme not in ("", "https")]


def test_pages_know_where_they_are(html: dict[Path, Html], built: Path) -> None:
    """On the web, by a description of their own; and each leads to the repository."""
    assert (built / page_metadata.PICTURE).is_file()
    said = []
    for path, page in html.items():
        assert page_metadata.settings()["output"]["html"]["git-repository-url"] in page.links
        if path.name not in page_metadata.NO_PAGES:
            text = path.read_text(encoding="utf-8")
            place = path.relative_to(built).as_posix().removesuffix("index.html")
            assert f'<link rel="canonical" href="{page_metadata.address()}{place}">' in text
            said += re.findall(r'<meta name="description" content="(.+?)">', text)
    assert len(said) == len(set(said)) >= len(PAGES)


def test_no_directive_is_left(html: dict[Path, Html]) -> None:
    assert not [path.name for path in html if "{{#" in path.read_text(encoding="utf-8")]


def test_pages_load_nothing_from_elsewhere(html: dict[Path, Html]) -> None:
    assert not [load for page in html.values() for load in page.loads if urlsplit(load).netloc]


@every_day
def test_a_day_has_its_chapter_and_a_section_for_each_task(day: Day, html: dict[Path, Html], built: Path) -> None:
    page = (built / day.chapter).with_suffix(".html")
    assert page in html, f"{day.chapter} is not in SUMMARY.md"
    assert {f"task-{task.id.replace('.', '-')}" for task in day.tasks} <= html[page].ids


@every_day
def test_a_chapter_shows_signature_and_commands_of_each_task(day: Day) -> None:
    text = file_paths.chapter_path(day).read_text(encoding="utf-8")
    names = ["tasks", *(f"signature-{task.number}" for task in day.tasks)]
    names += [] if day.is_open else ["quiz"]
    wanted = [f"generated/{day.name}.md:{name}}}}}" for name in names]
    wanted += [f"pdm run {command} {task.id}" for task in day.tasks for command in ("test", "hint")]
    assert not [words for words in wanted if words not in text]


@every_day
def test_names_are_read_as_they_are_typed(day: Day, html: dict[Path, Html], built: Path) -> None:
    text = " ".join(html[(built / day.chapter).with_suffix(".html")].text.split())
    assert not [task.target for task in day.tasks if str(task.target).replace(":", ".") not in text]


@every_day
def test_a_signature_shows_the_first_line_of_each_docstring(day: Day) -> None:
    text = (SOURCE / "generated" / f"{day.name}.md").read_text(encoding="utf-8")
    files = {SOLUTION / task.target.file for task in day.tasks}
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    for listing in re.findall(r"ANCHOR: signature-.*?```(?:python|cpp)\n(.*?)```", text, re.DOTALL):
        docstrings = re.findall(r'"""(.*?)"""', listing, re.DOTALL)
        assert listing.count('"""') == 2 * len(docstrings)
        assert not [docstring for docstring in docstrings if f'"""{" ".join(docstring.split())}' not in code]


@every_day
def test_a_signature_is_no_wider_than_the_column(day: Day) -> None:
    text = (SOURCE / "generated" / f"{day.name}.md").read_text(encoding="utf-8")
    for listing in re.findall(r"ANCHOR: signature-.*?```(?:python|cpp)\n(.*?)```", text, re.DOTALL):
        assert not [line for line in listing.splitlines() if len(line) > WIDTH]


def test_a_long_signature_has_an_argument_a_line() -> None:
    arguments = [
        "run: Callable[[int, int], Sequence[Outcome]]",
        "most: int",
        "*",
        "share: float = 0.95",
        "end: str = ''",
    ]
    short = "".join(f"    {argument},\n" for argument in arguments)
    assert wrapped(f"def f({', '.join(arguments)}) -> int:\n") == f"def f(\n{short}) -> int:\n"
    parameters = "".join(f"    const float* {name},\n" for name in ("queries", "keys", "values", "attended", "sums"))
    declared = f"/// A kernel.\nvoid attend({' '.join(parameters.split())[:-1]}) {{\n"
    assert wrapped_c(declared) == f"/// A kernel.\nvoid attend(\n{parameters[:-2]}\n) {{\n"


def test_long_comments_of_c_keep_their_paragraphs() -> None:
    long = "  // A sentence that is much longer than the column of a chapter, and goes on in the next line of\n"
    short = wrapped_c(f"{long}  // the file.\n  // The next paragraph.\n  int x = 0;  // kept\n")
    assert max(map(len, short.splitlines())) <= WIDTH
    assert short.endswith("line of the file.\n  // The next paragraph.\n  int x = 0;  // kept\n")


# What the pages include and quote


def test_generated_files_are_current() -> None:
    assert not current.differences()


@pytest.mark.parametrize("page", sorted(SOURCE.rglob("*.md")), ids=page_id)
def test_every_fence_has_a_language(page: Path) -> None:
    assert not [fence.line for fence in fences(page) if not fence.language]


@every_page
def test_no_line_of_a_paragraph_begins_as_a_list_item(page: Path) -> None:
    """Markdown would end the paragraph there: "p\n+ 5" is a bullet. The book's own bullets are hyphens."""
    text = re.sub(r"(?ms)^ *(```+|~~~+|\$\$).*?^ *\1", "", page.read_text(encoding="utf-8"))
    item = re.compile(r"( *)([-+*]|\d+[.)]) ")
    for before, line in itertools.pairwise(["", *text.splitlines()]):
        if found := item.match(line):
            prose = before.strip() and not item.match(before) and not before.startswith(f"{found[1]} ")
            assert not prose, f"a list begins at {line!r}"
            assert found[2] not in "+*", f"no bullet of the book: {line!r}"


@every_page
def test_recorded_outputs_fit_the_page(page: Path) -> None:
    """What is longer wraps on the page. Only a case, what a check is about, and a learner's line of code may be."""
    files = re.findall(r"#include (\S*transcripts/\S+?)\}", page.read_text(encoding="utf-8"))
    lines = [line for file in files for line in (page.parent / file).read_text(encoding="utf-8").splitlines()]
    long = ("      case ", "      check ", "      src/")
    assert not [line for line in lines if len(line) > COLUMNS and not line.startswith(long)]


@every_day
def test_the_tests_that_a_chapter_names_exist(day: Day) -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in file_paths.tests_paths(day.tasks))
    text = file_paths.chapter_path(day).read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named, "a chapter names the tests of its invariants"
    assert named <= set(re.findall(r"^def (test_\w+)", tests, re.MULTILINE))


def test_the_glossary_is_in_order_and_explains_every_term() -> None:
    """A chapter prints a term bold where it explains it; the lead of a question, which ends in a full stop, is none."""
    glossary = (SOURCE / "glossary.md").read_text(encoding="utf-8")
    names = re.findall(r"^(\S.*)\n: ", glossary, re.MULTILINE)
    assert names == sorted(names, key=str.lower)
    beginnings = tuple(words.lower() for words in re.findall(r"^(?:: )?(.*)$", glossary, re.MULTILINE))
    unknown = set()
    for day in DAYS:
        text = re.sub(r"^\|.*", "", file_paths.chapter_path(day).read_text(encoding="utf-8"), flags=re.MULTILINE)
        terms = {" ".join(term.split()) for term in re.findall(r"\*\*([A-Za-z][^*`]*[a-zA-Z])\*\*", text)} - NO_TERMS
        unknown |= {term for term in terms if not any(b.startswith(term.lower().removesuffix("s")) for b in beginnings)}
    assert not unknown


@every_text
def test_commands_exist(page: Path) -> None:
    """Each `pdm run NAME` is a script, each `dev NAME` a command of it, and each option one that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    scripts = set(project["tool"]["pdm"]["scripts"])
    wrong = []
    for typed in re.findall(r"pdm run ([^`\n|]+)", page.read_text(encoding="utf-8")):
        words = typed.split(" -- ")[0].split("#")[0].split()
        if words[0].isupper():  # `pdm run NAME`
            continue
        command = cli.get_command(click.Context(cli), words[0])
        if words[0] == "dev" and isinstance(command, click.Group) and len(words) > 1:
            command = command.commands.get(words[1])
            if command is None:
                wrong.append(typed)
        if words[0] not in scripts | PROGRAMS:
            wrong.append(typed)
        elif command:
            options = {option for parameter in command.get_params(click.Context(command)) for option in parameter.opts}
            wrong += [typed for word in words if word.startswith("--") and word.strip(".,;:)") not in options]
    assert not wrong


def test_search_results_quote_sentences(tmp_path: Path) -> None:
    """Not tables; what is found is the same."""
    (tmp_path / "a.html").write_text(
        '<main><h2 id="b">B</h2><p>One.</p><table><tr><td>2</td></tr></table><p>It\'s three.</p></main>'
    )
    found = {"doc_urls": ["a.html#b"], "index": {"documentStore": {"docs": {"0": {"body": "One. 2 It is three."}}}}}
    index = tmp_path / "searchindex-0.js"
    index.write_text(f"window.search = JSON.parse('{json.dumps(found)}');")
    page_metadata.quote_sentences(tmp_path)
    assert r'{"body":"One. It\'s three."}' in index.read_text()

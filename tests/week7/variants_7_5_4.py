"""Known programs of task 7.5.4, merging parallel work."""

import difflib

import mlx.core as mx
from tests.week7.merging import SCENES, told
from tiny_llm_solution.workspace.merge import Conflict, Merge

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.5.4")


def merged(program, name):
    base, copies = SCENES[name]
    return mx.array(list(repr(told(program(base, copies))).encode()), dtype=mx.int32)


known.probe_table(**{
    f"scene_{i}": lambda program, name=name: merged(program, name) for i, name in enumerate(SCENES)
})  # fmt: skip


@known.sized("a file of 400 lines, changed in 4 copies")
def sized(program):
    lines = [b"line %d\n" % i for i in range(400)]
    copies = {}
    for number in range(4):
        changed = list(lines)
        changed[50 + 100 * number] = b"changed\n"
        copies[f"{number}"] = {"f": b"".join(changed)}
    return lambda: program({"f": b"".join(lines)}, copies)


known.change(
    "the-last-copy-wins",
    ("if len(contents) == 1:", "if contents:"),
    ("merge.changed[path] = contents.pop()", "merge.changed[path] = [*after.values()][-1]"),
    ("elif contents:", "elif False:"),
    fact="a file that several copies changed has the content of the last one",
    question="What became of the first agent's work?",
)
known.change(
    "every-shared-file-conflicts",
    ('if before is None or b"\\0" in before or len(texts) < len(after):', "if True:"),
    fact="a file that two copies changed is a conflict, wherever in it the changes are",
    question="One agent changed line 3, the other one line 40. What is in the way?",
)
known.change(
    "applied-from-the-front",
    ("for hunk in sorted(hunks, reverse=True):", "for hunk in sorted(hunks):"),
    fact="hunks are applied from the front, and later ones hit other lines",
    question="The first hunk inserts two lines. Where are the lines of the second one now?",
)
known.change(
    "touching-is-fine",
    (
        "if one.first <= other.last and other.first <= one.last:",
        "if one.first < other.last and other.first < one.last:",
    ),
    fact="changes that touch are merged, and so are two insertions in the same place",
    question="Both agents insert a line after line 3. Which of the two comes first?",
)
known.change(
    "adjacent-is-fine",
    (
        "if one.first <= other.last and other.first <= one.last:",
        "if one.first < other.last and other.first < one.last or one.first == one.last == other.first == other.last:",
    ),
    fact="changes that touch are merged: only overlaps, and insertions in the same place, are conflicts",
    question="One agent changes line 3, the other one line 4. Which unchanged line is between them?",
)
known.change(
    "neighbors-alone",
    ("itertools.combinations(sorted(hunks), 2)", "itertools.pairwise(sorted(hunks))"),
    fact="each hunk is compared only with the next one, and a long hunk may reach beyond that",
    question="One agent replaces lines 2 to 8, another changes line 3, a third line 7. How many pairs overlap?",
)
known.change(
    "new-files-by-lines",
    (
        'if before is None or b"\\0" in before or len(texts) < len(after):',
        'if b"\\0" in (before or b"") or len(texts) < len(after):',
    ),
    ("_merge_lines(merge, path, before, texts)", '_merge_lines(merge, path, before or b"", texts)'),
    fact="a file that the base does not have is merged by lines, as if it were empty there",
    question="Two agents create a file of the same name. Of which file would its lines be a change?",
)
known.change(
    "equal-hunks-conflict",
    ("clashing = set[Hunk]()", "clashing = {hunk for hunk, names in hunks.items() if len(names) > 1}"),
    fact="the same change in two copies is a conflict",
    question="Both agents corrected the same typo in the same way. What is there to decide?",
)
known.change(
    "half-merged",
    (
        """
        merge.conflicts.append(Conflict(path, tuple(n for n in after if n in names), min(clashing).first + 1))
        return
        """,
        "merge.conflicts.append(Conflict(path, tuple(n for n in after if n in names), min(clashing).first + 1))",
    ),
    ("for hunk in sorted(hunks, reverse=True):", "for hunk in sorted(set(hunks) - clashing, reverse=True):"),
    fact="of a file with a conflict, the other hunks are merged all the same",
    question="Two hunks of one agent belong together, and one of them is refused. Does the file still work?",
)
known.change(
    "all-named",
    ("tuple(n for n in after if n in names)", "tuple(after)"),
    fact="a conflict names every copy that changed the file, also those whose changes fit",
    question="Three agents changed the file, and two of them collide. Who has to be asked?",
)
known.change(
    "line-from-zero",
    ("min(clashing).first + 1", "min(clashing).first"),
    fact="the line of a conflict is counted from 0",
    question="Which number does an editor give to the first line?",
)
known.change(
    "deletion-loses",
    (
        "after = {name: files.get(path) for name, files in copies.items() if files.get(path) != before}",
        "after = {name: files[path] for name, files in copies.items() if path in files and files[path] != before}",
    ),
    fact="a deleted file counts as unchanged",
    question="An agent has deleted the file. Where does the merge say so?",
)
known.change(
    "binary-by-lines",
    (' and b"\\0" not in content}', "}"),
    ('before is None or b"\\0" in before or', "before is None or"),
    fact="files with zero bytes are merged by lines",
    question="What is a line of a picture?",
)
known.change(
    "zero-bytes-of-the-copies-alone",
    ('before is None or b"\\0" in before or', "before is None or"),
    fact="zero bytes are looked for in the copies' contents alone, not in the base",
    question="Both copies have replaced a picture by a text. Of what file were their lines a change?",
)
known.change(
    "autojunk",
    ("autojunk=False).get_opcodes()", "autojunk=True).get_opcodes()"),
    fact="lines that occur often are ignored by the comparison, in files of 200 lines and more",
    question="Which parameter of SequenceMatcher treats frequent lines as junk?",
)
known.change(
    "other-line-ends",
    ('re.findall(rb"[^\\n]*\\n|[^\\n]+", content)', "content.splitlines(keepends=True)"),
    fact="lines also end at a carriage return",
    question="At which bytes does bytes.splitlines end a line?",
)
known.change(
    "equal-hunks-twice",
    (
        "for hunk in sorted(hunks, reverse=True):",
        "for hunk in sorted((h for h in hunks for _ in hunks[h]), reverse=True):",
    ),
    fact="a change that two copies have in common is applied once for each of them",
    question="Two copies insert the same line. How often is it in the merged file?",
)
known.change(
    "new-files-ignored",
    ("set(base).union(*copies.values())", "base"),
    fact="only files of the base are merged, and a file that a copy has created is lost",
    question="An agent has created a file. Which of your sets of paths has its path?",
)
known.change(
    "deleted-by-all-ignored",
    (
        "set(base).union(*copies.values())",
        "set().union(*copies.values())",
    ),
    fact="a file that all copies have deleted is left out of the result",
    question="All agents have deleted the file. Where does its path still occur?",
)
known.change(
    "names-sorted",
    ("tuple(n for n in after if n in names)", "tuple(sorted(names))"),
    fact="a conflict names its copies in alphabetical order, not in their own",
    question="The copies are given as c, b and a. Which comes first?",
)


@known.accepted("from gap to gap")
def from_gap_to_gap(base, copies):
    merge = Merge()
    paths = set(base)
    for files in copies.values():
        paths |= set(files)
    for path in sorted(paths):
        old = base.get(path)
        changed = [(name, files.get(path)) for name, files in copies.items()]
        changed = [(name, content) for name, content in changed if content != old]
        if not changed:
            continue
        texts = [old, *[content for _, content in changed]]
        if all(content == changed[0][1] for _, content in changed):
            merge.changed[path] = changed[0][1]
        elif any(text is None or 0 in text for text in texts):
            merge.conflicts.append(Conflict(path, tuple(name for name, _ in changed), 0))
        else:
            _by_lines(merge, path, old, changed)
    return merge


def _split(content):
    lines = content.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + [lines[-1]] * bool(lines[-1])


def _by_lines(merge, path, old, changed):
    lines, edits = _split(old), []
    for name, content in changed:
        new = _split(content)
        for tag, a, b, c, d in difflib.SequenceMatcher(a=lines, b=new, autojunk=False).get_opcodes():
            if tag != "equal":
                edits.append((a, b, b"".join(new[c:d]), name))
    bad = [
        (edit, other)
        for edit in edits
        for other in edits
        if edit[:3] != other[:3] and edit[0] <= other[1] and other[0] <= edit[1]
    ]
    if bad:
        names = {edit[3] for pair in bad for edit in pair}
        line = min(edit[0] for pair in bad for edit in pair) + 1
        merge.conflicts.append(Conflict(path, tuple(name for name, _ in changed if name in names), line))
        return
    parts, at = [], 0
    for first, last, text in sorted({edit[:3] for edit in edits}):
        parts += [*lines[at:first], text]
        at = last
    merge.changed[path] = b"".join([*parts, *lines[at:]])

"""The check in the chapter of week 3's open task, as it grows."""

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.mistake_diffs import check_steps
from tiny_llm_course.dev.book.parts import Parts

DRAWN = """\
def check_accept(accept):
    p, q = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]
    found = [0, 0, 0]
    for _ in range(200):
        token = mx.random.categorical(mx.log(mx.array(q))).item()
        accepted, then = accept(mx.array([p, p]), mx.array([q]), [token], mx.random.uniform(shape=(2,)).tolist())
        found[token if accepted else then] += 1 / 200
    assert all(abs(found[x] - p[x]) < 0.1 for x in range(3))
"""
STRICTER = DRAWN.replace("< 0.1", "< 0.01")
EVEN = """\
def check_accept(accept):
    p, q = [0.25, 0.25, 0.5], [0.5, 0.25, 0.25]
    even = [1 / 8, 3 / 8, 5 / 8, 7 / 8]
    found = [0, 0, 0]
    for token in range(3):
        for draws in [[u, v] for u in even for v in even]:
            accepted, then = accept(mx.array([p, p]), mx.array([q]), [token], draws)
            found[token if accepted else then] += q[token] / 16
    assert found == p
"""
FOUR = (
    EVEN.replace("[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]", "[0.125, 0.125, 0.375, 0.375], [0.5, 0.25, 0.25, 0.0]")
    .replace("even = [1 / 8, 3 / 8, 5 / 8, 7 / 8]", "even = [(2 * i + 1) / 16 for i in range(8)]")
    .replace("[0, 0, 0]", "[0, 0, 0, 0]")
    .replace("/ 16\n", "/ 64\n")
)
EDGES = FOUR.replace("even = [(2 * i + 1) / 16 for", "even = [i / 8 for")
STAND = """\
def check_accept(accept):
    p, q = [0.125, 0.125, 0.375, 0.375], [0.5, 0.25, 0.25, 0.0]
    r = [0.5, 0.0, 0.25, 0.25]  # the target's row after the draft token
    found = {}
    for token in range(3):
        for draws in [[i / 8, j / 8] for i in range(8) for j in range(8)]:
            accepted, then = accept(mx.array([p, r]), mx.array([q]), [token], draws)
            text = (token, then) if accepted else (then,)
            found[text] = found.get(text, 0) + q[token] / 64
    for x in range(4):
        assert found.get((x,), 0) == max(p[x] - q[x], 0)
        for y in range(4):
            assert found.get((x, y), 0) == min(p[x], q[x]) * r[y]
"""
REFUSED = """\
def check_accept(accept):
    two, three = mx.full((2, 4), 0.25), mx.full((3, 4), 0.25)
    for target, draft, draws in ((two, two, 3), (three, two, 2), (three, three, 3), (three, two[:, :3], 3)):
        try:
            accept(target, draft, [1, 2], [0.5] * draws)
        except ValueError:
            continue
        raise AssertionError(f"takes {target.shape}, {draft.shape} and {draws} draws for two tokens")
"""
STEPS = {
    "drawn": DRAWN,
    "stricter": STRICTER,
    "even": EVEN,
    "four": FOUR,
    "edges": EDGES,
    "stand": STAND,
    "refused": REFUSED,
}


def generated_parts() -> Parts:
    """Return the check of each step, and how many programs it stops."""
    return check_steps(load_course().open_task(3), STEPS)

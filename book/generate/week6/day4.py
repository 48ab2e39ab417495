"""Day 4's figure, table and widget, of conversations over two replicas in virtual time; and what was measured."""

import json
from typing import Any

from book.generate.week6.replica_runs import FIRST, MORE, NAMES, QUARTER, RESTART, World, played
from tests.week3.virtual_time import play

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import SMALL
from tiny_llm_course.dev.book.drawing.states import states
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.machine import in_words
from tiny_llm_course.paths import ROOT
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.router.health import Health  # noqa: E402
from tiny_llm_solution.router.replica import Replica  # noqa: E402

POLICIES = ("Least loaded", "Prefix-aware")

SECONDS = 22  # at which a replica may be killed, at most


def generated_parts() -> Parts:
    """Return the figure, the table, the widget, and the numbers of the record."""
    return {
        "choices": choices(),
        "health": health(),
        "saved": saved(),
        "router-steps": router_steps(),
        "overhead": overhead(),
        "killed": killed(),
    }


def record() -> dict[str, Any]:
    """Return what benches/replicas.py has recorded."""
    found: dict[str, Any] = json.loads((ROOT / "benches" / "week6" / "replicas.json").read_text(encoding="utf-8"))
    return found


def lanes(attempts: list[list[int]]) -> list[int]:
    """Return each attempt's lane on its replica: the lowest that is free when it begins."""
    found = list[int]()
    for i, (_, _, replica, begin, *_) in enumerate(attempts):
        taken = {found[j] for j, other in enumerate(attempts[:i]) if other[2] == replica and other[5] > begin}
        found.append(min(set(range(len(NAMES) + 1)) - taken))
    return found


def conversations() -> str:
    """Draw which replica serves which turn, over time, without and with prefixes."""
    runs = {title: played(title == "Prefix-aware") for title in POLICIES}
    last = max(row[5] for rows in runs.values() for row in rows) * QUARTER
    high, left = 21.0, 70.0

    def draw(canvas: Canvas) -> None:
        per_second = (canvas.width - left - 16) / last
        y = 0.0
        for title, rows in runs.items():
            canvas.text(0, y + 12, title, "strong")
            y += 20
            placed = list(zip(rows, lanes(rows), strict=True))
            for replica in range(2):
                mine = [(row, lane) for row, lane in placed if row[2] == replica]
                deep = 1 + max(lane for _, lane in mine)
                canvas.text(0, y + high * deep / 2 + 2, f"replica {replica + 1}", "small")
                for (user, turn, _, begin, first, end, *_), lane in mine:
                    at, middle, to = (left + per_second * QUARTER * time for time in (begin, first, end))
                    top = y + high * lane
                    canvas.rect(at, top, middle - at, 18, f"fill series-{user}")
                    canvas.rect(middle, top, to - middle, 18, f"hollow series-{user}")
                    canvas.text((middle + to) / 2, top + 13, f"{NAMES[user]}{turn + 1}", "small", "middle")
                y += high * deep + 8
            y += 6
        canvas.path([(left, y), (left + per_second * last, y)], "axis")
        for second in range(0, int(last) + 1, 5):
            canvas.path([(left + per_second * second, y), (left + per_second * second, y + 4)], "axis")
            canvas.text(left + per_second * second, y + 5 + SMALL, f"{second} s", "small", "middle")

    about = "; ".join(f"{title}: {_served(rows)}" for title, rows in runs.items())
    caption = (
        "Twelve turns of three users, simulated with each of two routers. Each user has a color. The filled part of a "
        "turn is its prefill, the hollow part its decoding. Turns below each other run on the same replica at once."
    )
    return at_both_widths(draw).figure("conversations-6-4", "Which replica serves which turn", about, caption)


def _served(rows: list[list[int]]) -> str:
    return ", ".join(f"{NAMES[conversation]}{turn + 1} on {replica + 1}" for conversation, turn, replica, *_ in rows)


def health() -> str:
    """Draw the states of a replica. Each transition is one that the solution makes."""
    grid = [["starting", "ready", "draining"], ["", "dead", ""], ["", " any state", ""]]
    events = {  # what the solution must observe to go from one state to another
        ("starting", "ready"): (["probe passed"] * 2, "2 probes pass\nin a row"),
        ("ready", "draining"): (["drain"], "asked\nto stop"),
        ("starting", "draining"): (["drain"], "asked to stop"),
        ("ready", "dead"): (["probe failed"] * 3, "either count\nreaches 3"),
        ("dead", "ready"): (["probe passed"] * 2, "2 probes pass\nin a row"),
        ("draining", "dead"): (["failed"] * 3, "either count\nreaches 3"),
        ("dead", "starting"): (["started"], "new process"),
    }
    for (start, end), (observed, _) in events.items():
        replica = Replica("replica", start)
        state = Health(replica)
        for event in observed:
            state.observe(event)
        assert replica.state == end, (start, end, replica.state)
    arrows = [(*ends, label) for ends, (_, label) in events.items()]
    arrows.append((" any state", "dead", "its process\nexits"))
    canvas = at_both_widths(lambda canvas: states(canvas, grid, arrows, lit=("ready",)))
    about = "; ".join(f"{start.strip()} to {end}: {label}".replace("\n", " ") for start, end, label in arrows)
    caption = "The states of a replica. Only a ready one, with a double border, gets new requests."
    return canvas.figure("health-6-4", "The states of a replica", about, caption)


def choices() -> str:
    """Return what the prefix-aware router knows when it chooses a replica for the first turns."""
    world = World(True, None, 0)
    play(world.run())
    head = ["Time, s", "Request", "Blocks", "Seen by 1, 2", "Running on 1, 2", "Sent to"]
    lines = [f"| {' | '.join(head)} |", "|--:|---|--:|---|---|---|"]
    for (conversation, turn, blocks, seen, running), row in zip(world.known, world.rows, strict=True):
        if turn < 2:
            name, time = f"{NAMES[conversation]}{turn + 1}", f"{row[3] * QUARTER:g}"
            each = [time, name, str(blocks), *(", ".join(map(str, pair)) for pair in (seen, running)), str(row[2] + 1)]
            lines.append(f"| {' | '.join(each)} |")
    return "\n".join([*lines, ""])


def saved() -> str:
    """Return how many tokens were prefilled with each policy."""
    found = record()
    least, aware = found["least_loaded"], found["prefix_aware"]
    share = 100 * (1 - aware["prefilled_tokens"] / least["prefilled_tokens"])
    return (
        f"On two real servers, three conversations of six turns had {least['prompt_tokens']:,} prompt tokens with the "
        f"least-loaded policy and {aware['prompt_tokens']:,} with the prefix-aware one. The servers prefilled "
        f"{least['prefilled_tokens']:,} and {aware['prefilled_tokens']:,} of them: {share:.0f} % fewer. (This and "
        f"what follows: {in_words(found['machine'])}, {found['date']}.)\n"
    )


def overhead() -> str:
    """Return the router's overhead."""
    found = record()
    rows = [
        f"| {model}, {of['tokens']} tokens | {kind} | {of[kind]['direct_ms']:.0f} ms | {of[kind]['router_ms']:.0f} ms "
        f"| {of[kind]['percent']:.0f} % |"
        for model, of in found["overhead"].items()
        for kind in ("whole", "streamed")
    ]
    head = ["| Model | Answer | Replica alone, p50 | Through the router, p50 | Overhead |", "|---|---|--:|--:|--:|"]
    words = "Requests sent alternately to one replica and through the router"
    return "\n".join([f"{words}:", "", *head, *rows, ""])


def killed() -> str:
    """Return what became of a load in which a replica was killed."""
    found = record()
    calm, hard = found["undisturbed"], found["killed"]
    ends = dict(hard["ends"])
    answered, events = ends.pop("answered", 0), ends.pop("error event", 0)
    others = ", ".join(f"{count} with {name}" for name, count in ends.items()) or "none ended in any other way"
    return (
        f"Of {hard['requests']} requests, {answered} were answered, {events} ended with an error event, and {others}. "
        f"{hard['wrong']} answers differed from those of an undisturbed run. The p95 of the answered requests was "
        f"{1e3 * hard['p95_s']:.0f} ms, against {1e3 * calm['p95_s']:.0f} ms without a kill, a ratio of "
        f"{found['p95_ratio']:.2f}. The killed replica was ready again after {hard['ready_again_s']:.1f} s, "
        f"and the router counted {sum(hard['running_after'])} running requests at the end.\n"
    )


def router_steps() -> str:
    """Return the widget, with the figure as its still."""
    runs = []
    for aware in (False, True):
        kills = [[played(aware, victim, second) for second in range(1, SECONDS + 1)] for victim in range(2)]
        runs.append({"calm": played(aware), "kills": kills})
    data = {
        "names": list(NAMES),
        "policies": list(POLICIES),
        "first": FIRST,
        "more": MORE,
        "restart": RESTART,
        "runs": runs,
    }
    return element("router-steps", data, conversations().rstrip())

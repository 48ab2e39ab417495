"""`pdm run bench serve`: a load of requests for every way to serve, for a server at an address, or step by step."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..course.registry import UsageError
from ..terminal.screen import USUAL, columns, say
from . import out_file
from .waiting import waiting

if TYPE_CHECKING:
    from ..measuring.load.speed import Which

SHOWN = 12  # requests of a replay


@dataclasses.dataclass(frozen=True)
class Serve:
    """What the options of `bench` say of a load."""

    requests: int | None = None
    rate: float | None = None
    seed: int | None = None
    url: str | None = None
    replay: bool = False

    def given(self) -> list[str]:
        """The options that were typed."""
        return [f"--{name}" for name, value in dataclasses.asdict(self).items() if value]


def bench_serve(
    which: dict[str, Any], stage: str | None, serve: Serve, quick: bool, file: Path | None, svg: Path | None
) -> int:
    """Measure, or replay; print it, and write the files that are asked for. `which` names the engine."""
    from ..measuring.load.speed import Which
    from ..measuring.load.workload import Load

    engine = Which(**which)
    known = {name: value for name in ("requests", "rate", "seed") if (value := getattr(serve, name)) is not None}
    load = Load(**known)
    if serve.replay or serve.url:
        if file or svg or (serve.replay and serve.url):
            raise UsageError("--replay and --url stand alone: neither --json nor --svg, nor one with the other.")
        return _replay(engine, stage, load) if serve.replay else _send(engine, load, str(serve.url))
    if stage:
        raise UsageError("All stages are measured; with --replay, --stage says which one is shown.")
    from ..dev.book import servings
    from ..measuring.load.outcome import lines_of
    from ..measuring.load.speed import measure

    for path, kind, is_one in ((file, "record", _is_record), (svg, "drawing", lambda c: c.startswith(b"<svg "))):
        if path:
            out_file.must_be_writable(path, kind, is_one)
    with waiting("measuring, a minute or two"):
        found = measure(engine, load, quick, note=lambda _: None)
    say(f"{found['title']}  ({found['package']})", bold=True)
    say()
    for line in lines_of(found, columns(sys.stdout) or USUAL):
        say(line, cut=True)
    if quick:
        say("Measured with --quick: the load is too small to say anything.", colour="yellow")
    if file:
        out_file.write(file, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if svg:
        out_file.write(svg, servings.in_a_file(found))
    return 0


def _replay(which: "Which", stage: str | None, load: Any) -> int:
    from ..measuring.load.sending import replay
    from ..measuring.load.speed import sample

    engine = which.loaded(stage)
    steps, came = replay(engine, sample(load, engine, SHOWN))
    shown = engine.part("serving.timeline", "timeline"), engine.part("serving.timeline", "drawn")
    say(f"Stage {engine.mode.name}: {engine.mode.title}. A column is a step.", bold=True)
    say()
    for line in shown[1](shown[0](steps, came), width=columns(sys.stdout) or USUAL):
        say(line, cut=True)
    return 0


def _send(which: "Which", load: Any, url: str) -> int:
    from ..measuring.clock import number
    from ..measuring.load.sending import model_at, send
    from ..measuring.load.workload import arrivals

    model = model_at(url)
    engine = dataclasses.replace(which, solution=True).loaded(None)  # spells the prompts, and serves nobody
    with waiting(f"sending {load.requests} requests"):
        outcome = send(url, model, engine, arrivals(engine, load))
    found = outcome.summary()
    say(f"{model} at {url}: {load.requests} requests, {found['failed']} without an answer", bold=True)
    say(f"  {number(outcome.throughput)} tokens/s")
    for name, key in (("to the first token", "ttft"), ("between two tokens", "tpot")):
        if times := found[key]:
            parts = ", ".join(f"{p} {number(1000 * seconds)} ms" for p, seconds in times.items())
            say(f"  {name}: {parts}")
    for reason in sorted({answer.failed for answer in outcome.answers if answer.failed})[:3]:
        say(f"  without an answer: {reason}", colour="yellow")
    return 0


def _is_record(contents: bytes) -> bool:
    try:
        found = json.loads(contents)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= {"title", "load", "rows", "machine"}

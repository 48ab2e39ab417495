"""Week 3, day 7, task 3: the stream of an answer.

Nothing is timed and nothing sleeps. A script of updates is checked against the formula.
"""

import pytest
from tests.week3.stream_script import STREAMS, Script, random_script, streamed, streamed_by_formula

from tiny_llm.server import streaming
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_pieces


def pieces_and_end(script, name):
    found = again(lambda: streamed(streaming.TextStream, script, events=False), name)
    calls = [sum(who == i and bool(why) for who, _, _, why in script.turns) for i in range(2)]
    end = f"the updates: read to its end; calls of finish: {calls[0]} and {calls[1]}"
    return found, end


@pytest.mark.parametrize("name", STREAMS)
def test_task_3_stream_pieces(name):
    """A piece is: which choice, its text, its tokens, its finish reason."""
    script, expected = STREAMS[name]
    found, end = pieces_and_end(script, name)
    same_pieces(found, [*expected, end], f"{name}: {script.turns}, held {script.held[0]!r}")


@pytest.mark.parametrize("name", STREAMS)
def test_task_3_stream_events(name):
    """The same pieces as events, and [DONE] after them."""
    script, _ = STREAMS[name]
    found = again(lambda: streamed(streaming.TextStream, script, events=True), name)
    pieces = again(lambda: streamed(streaming.TextStream, script, events=False), name)
    case = f"the events of {name}: {script.turns}"
    same_pieces([str(len(found)), found[-2], found[-1]], [str(len(pieces) + 1), "[DONE]", pieces[-1]], case)


TWO = [(0, [5], "a \u72d7\n", ""), (0, [6], 'a \u72d7\n"b"', "length")]
EVENTS = [
    '{"text": "a \\u72d7\\n", "tokens": [5], "who": 0, "why": ""}',
    '{"text": "\\"b\\"", "tokens": [6], "who": 0, "why": "length"}',
]
READ = "the updates: read to its end; calls of finish: 1 and 0"


def test_task_3_stream_events_in_json():
    """Line ends and quotation marks are escaped in JSON."""
    found = again(lambda: streamed(streaming.TextStream, Script(TWO), events=True), "two pieces")
    same_pieces(found, [*EVENTS, "[DONE]", READ], f"the events of {TWO}")


def test_task_3_stream_final_chunk():
    """The number of pieces, which is known only after the last one."""
    found = again(lambda: streamed(streaming.TextStream, Script(TWO, last=True), events=True), "two pieces")
    same_pieces(found, [*EVENTS, '{"usage": 2}', "[DONE]", READ], f"the events of {TWO}, and then usage")


@pytest.mark.parametrize("error", ["EngineFailed", "EngineClosed"])
def test_task_3_stream_that_fails(error):
    """The error is the last event; pieces raise it."""
    script, case = Script(TWO[:1], error=error, last=True), f"{TWO[:1]}, and then {error}"
    found = again(lambda: streamed(streaming.TextStream, script, events=True), case)
    end = "the updates: open; calls of finish: 0 and 0"
    same_pieces(found, [EVENTS[0], '{"error": "what has happened"}', end], f"the events of {case}")
    found = again(lambda: streamed(streaming.TextStream, script, events=False), case)
    same_pieces(found[-2:], [f"raised {error}", end], f"the pieces of {case}")


def test_task_3_stream_that_cannot_start():
    """A ValueError is not the engine's: no event reports it."""
    script, case = Script([], error="ValueError"), "a ValueError before the first update"
    found = again(lambda: streamed(streaming.TextStream, script, events=True), case)
    same_pieces(found, ["raised ValueError", "the updates: open; calls of finish: 0 and 0"], case)


@pytest.mark.parametrize("events", [False, True], ids=["pieces", "events"])
def test_task_3_stream_whose_reader_leaves(events):
    """When aclose returns, the updates are closed."""
    script = Script([(0, [5], "a", ""), (0, [6], "ab", ""), (0, [7], "abc", "length")], closes=2)
    what = "events" if events else "pieces"
    found = again(lambda: streamed(streaming.TextStream, script, events), what)
    end = "the updates: closed; calls of finish: 0 and 0"
    same_pieces(found[-1:], [end], f"{what}, of which the reader takes two before it closes them")


def test_task_3_stream_sweep():
    for n in sizes(N=64, W=20):
        script = random_script(n.seed, n.N, n.W)
        name = f"{n.N} updates of at most {n.W} tokens, seed {n.seed}"
        found, end = pieces_and_end(script, name)
        same_pieces(found, [*streamed_by_formula(script), end], name)

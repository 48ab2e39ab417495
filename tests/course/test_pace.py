"""How long a text will take is said before it begins, and without --max-tokens it ends with a minute."""

from itertools import accumulate

import pytest
from tests.course.checkpoint_folders import small

from tiny_llm_course.engine import engine as engine_module
from tiny_llm_course.engine import pace as pace_module
from tiny_llm_course.engine import talk
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.engine.pace import Pace, slow


def paced(prompt, *taken, rereads=True):
    """A text whose tokens came so many seconds after one another."""
    pace = Pace(prompt, rereads)
    pace._came = list(accumulate(taken, initial=0.0))
    return pace


@pytest.mark.parametrize(
    ("pace", "words"),
    [
        (paced(4, 0.1, 0.1, 0.1), "It stops after a minute, at about 81 tokens; --max-tokens 256 goes on, about 9"),
        (paced(4, *[0.1] * 8), ""),  # it does not grow: there is a cache
        (
            paced(4, *[0.25] * 8),
            "It stops after a minute, at about 241 tokens; --max-tokens 256 goes on, about 64 s in",
        ),
        (paced(4, *(0.01 * (4 + i) for i in range(1, 9))), "It stops after a minute, at about 106 tokens; --max-token"),
        (paced(4, *(0.2 - 0.01 * i for i in range(1, 9))), ""),  # the first ones are slow on many machines
        (paced(1000, 0.1, 0.1), ""),
        (paced(1000, 1.0, 1.0), "It stops after a minute, at about 59 tokens; --max-tokens 256 goes on, about 5 minut"),
        (paced(4, 0.001, 0.001), ""),
        (paced(4, 0.2, 0.2, rereads=False), ""),
        (
            paced(100, 0.3, 0.3, rereads=False),
            "It stops after a minute, at about 201 tokens; --max-tokens 256 goes on, about 76 s",
        ),
    ],
)
def test_what_a_text_will_take(pace, words):
    said = slow(pace, 256, stops=True)
    assert (words in said) if words else said == ""


def test_with_max_tokens_it_goes_on():
    assert slow(paced(4, *[1.0] * 8), 200, stops=False) == (
        "Slow on this machine: about 3 minutes for 200 tokens. Ctrl-C ends it."
    )


@pytest.fixture
def hurried(checkpoint, monkeypatch):
    """An engine for which a minute is over at once."""
    monkeypatch.setattr(engine_module, "MINUTE", 0.0)
    monkeypatch.setattr(pace_module, "MINUTE", 0.0)
    monkeypatch.setattr(pace_module, "LISTENED", 0.0)
    return load_engine(str(checkpoint(small())), True, "float32")


def test_without_max_tokens_it_ends_with_the_minute(hurried, capsys):
    assert talk.generate(hurried, "Once", None, Sampling(temp=0)) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Once")
    assert said.err.startswith("1 token in ")
    assert said.err.endswith("; stopped: after a minute (--max-tokens 256 goes on)\n")


def test_with_max_tokens_it_takes_what_it_takes(hurried, capsys):
    assert talk.generate(hurried, "Once", 5, Sampling(temp=0)) == 0
    first, last = capsys.readouterr().err.splitlines()
    assert first == "Slow on this machine: about 0 s for 5 tokens. Ctrl-C ends it."
    assert last.startswith("5 tokens in ")
    assert last.endswith("; stopped: length limit (5 tokens)")

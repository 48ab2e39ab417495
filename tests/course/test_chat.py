"""The chat: what the model is told of the conversation, and what the user is."""

import io
import sys

import pytest
from tests.course.checkpoint_folders import chatting

from tiny_llm_course.engine import talk
from tiny_llm_course.engine.engine import Engine, Sampling, load_engine

FORGOTTEN = "The context is full: the {} dropped.\n"


@pytest.fixture
def engine(tmp_path) -> Engine:
    """With a context of 96 tokens."""
    return load_engine(str(chatting(tmp_path / "small", context=96)), solution=True, dtype="float32")


@pytest.fixture
def conversation(engine, monkeypatch, capsys):
    """`conversation(*typed)`: every list of messages that the template was given, and what was printed."""

    def talk_about(*typed, max_tokens=3):
        told = []
        render = talk.render_chat

        def recording(template, messages, *args):
            told.append([(message["role"], message["content"]) for message in messages])
            return render(template, messages, *args)

        monkeypatch.setattr(talk, "render_chat", recording)
        monkeypatch.setattr(talk, "lines", lambda: iter(typed))
        assert talk.chat(engine, max_tokens, Sampling(temp=0)) == 0
        return told, *capsys.readouterr()

    return talk_about


def test_every_turn_is_told_to_the_model(conversation):
    told, out, _ = conversation("one", "two", "three")
    answers = [text for role, text in told[-1] if role == "assistant"]
    assert [[text for role, text in turns if role == "user"] for turns in told] == [
        ["one"],
        ["one", "two"],
        ["one", "two", "three"],
    ]
    assert [role for role, _ in told[-1]] == ["user", "assistant", "user", "assistant", "user"]
    assert out.startswith("".join(f"{answer}\n" for answer in answers))


def test_a_reset_forgets_them(conversation):
    told, _, err = conversation("one", "/reset", "two")
    assert told[-1] == [("user", "two")]
    assert "The conversation is forgotten.\n" in err


@pytest.mark.parametrize("typed", ["", "   ", "/help", "/reset", "/what", "/", " /quit "])
def test_commands_and_empty_lines_are_not_told(conversation, typed):
    told, out, _ = conversation(typed)
    assert (told, out) == ([], "")


def test_an_unknown_command_is_named(conversation):
    assert conversation("/what")[2] == "There is no command /what; /help lists them.\n"
    assert conversation("/help")[2] == f"{talk.HELP}\n"


def test_nothing_is_read_after_quit(conversation):
    assert conversation("/quit", "one")[0] == []


@pytest.mark.parametrize("typed", ["/etc/hosts is a file", "/no_think What is it?", "a <|im_end|> b", "<|im_start|>"])
def test_what_only_looks_like_a_command_is_told(conversation, typed):
    told, out, _ = conversation(typed)
    assert told == [[("user", typed)]]
    assert out.endswith("\n")


def test_the_oldest_turns_are_forgotten_when_the_context_is_full(conversation):
    told, _, err = conversation("first", "second", "x" * 40, "last")
    assert told[-1][0] == ("user", "x" * 40)
    assert err.count(FORGOTTEN.format("oldest question is")) == 2


def test_a_message_longer_than_the_context_is_one_line_and_forgets_nothing(conversation):
    told, _, err = conversation("one", "x" * 200, "two")
    assert err.splitlines()[1].startswith("The prompt has ")
    assert err.splitlines()[1].endswith(" tokens, but the model takes fewer than 96.")
    assert [text for role, text in told[-1] if role == "user"] == ["one", "two"]
    assert "forgotten" not in err


def test_many_turns_are_forgotten_at_once(conversation):
    told, _, err = conversation("a", "b", "x" * 70)
    assert told[-1] == [("user", "x" * 70)]
    assert FORGOTTEN.format("2 oldest questions are") in err


@pytest.mark.parametrize(
    ("letters", "max_tokens", "kept"),
    [(1, 10, 5), (17, 10, 5), (18, 10, 3), (42, 10, 3), (43, 10, 1), (500, 10, 1), (3, 9999, 5), (4, 9999, 3)],
)
def test_the_newest_turns_that_fit_are_kept(engine, letters, max_tokens, kept):
    """Beside an answer of max_tokens, or of a quarter of the context if that is less."""
    turns = [("user", "aa"), ("assistant", "bb"), ("user", "cc"), ("assistant", "dd"), ("user", "e" * letters)]
    messages = [{"role": role, "content": text} for role, text in turns]
    left, ids = talk.fitted(engine, messages, max_tokens)
    assert left == messages[-kept:]
    assert len(messages) == 5
    assert engine.tokenizer.decode(ids).count("<|im_start|>") == kept + 1


def test_a_template_that_refuses_is_one_line_a_question(tmp_path, monkeypatch, capsys):
    folder = chatting(tmp_path / "strict", 96, "{{ raise_exception('Never.') }}")
    monkeypatch.setattr(talk, "lines", lambda: iter(["one", "two"]))
    assert talk.chat(load_engine(str(folder), True, None), 3, Sampling()) == 0
    assert capsys.readouterr().err == "The model's chat template: Never.\n" * 2


def test_a_terminal_is_shown_no_control_characters(monkeypatch):
    class Screen(io.TextIOWrapper):
        def isatty(self):
            return True

    for kind, shown in ((Screen, "a␛[2J␇b\n\tc�é"), (io.TextIOWrapper, "a\x1b[2J\x07b\n\tc\x9bé")):
        buffer = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", kind(buffer, encoding="utf-8"))
        talk.write("a\x1b[2J\x07b\n\tc\x9bé")
        assert buffer.getvalue().decode() == shown


def test_a_terminal_without_unicode_is_no_error(monkeypatch):
    buffer = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, encoding="ascii"))
    talk.write("né")
    assert buffer.getvalue() == b"n?"

"""The chat: what the model is told of the conversation, what is piped in, and what happens on a terminal."""

import io
import os
import subprocess
import sys

import pytest
from tests.course.checkpoint_folders import CHAT_TEMPLATE, small, write_checkpoint
from tests.course.terminal import CTRL_C, CTRL_D, UP, Terminal

from tiny_llm_course import talk
from tiny_llm_course.engine import Engine, Sampling, load_engine
from tiny_llm_course.paths import ROOT

HINT = "Ctrl-C once more leaves."
FORGOTTEN = "The context is full: the {} forgotten.\n"


def folder_with(place, context, template=CHAT_TEMPLATE):
    settings = {"chat_template": template}
    model = small()
    return write_checkpoint(place, model, config={"max_position_embeddings": context}, tokenizer_config=settings)


@pytest.fixture(scope="module")
def babbler(tmp_path_factory):
    """A model whose answers have no end."""
    return folder_with(tmp_path_factory.mktemp("models") / "babbler", context=2000)


@pytest.fixture
def engine(tmp_path) -> Engine:
    """With a context of 96 tokens."""
    return load_engine(str(folder_with(tmp_path / "small", context=96)), solution=True, dtype="float32")


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
    assert conversation("/what")[2] == f"There is no command /what. {talk.HELP}\n"
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


def test_the_longest_answer_that_is_allowed_does_not_forget_the_conversation(conversation):
    told, _, err = conversation("a", "b", max_tokens=10_000)
    assert [len(turns) for turns in told] == [1, 1], "the first answer has filled the context"
    assert err.count("the context is full (96 tokens)") == 2


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


@pytest.mark.parametrize(("letters", "kept"), [(1, 5), (17, 5), (18, 3), (42, 3), (43, 1), (500, 1)])
def test_the_newest_turns_that_fit_are_kept(engine, letters, kept):
    turns = [("user", "aa"), ("assistant", "bb"), ("user", "cc"), ("assistant", "dd"), ("user", "e" * letters)]
    messages = [{"role": role, "content": text} for role, text in turns]
    left, ids = talk.fitted(engine, messages, max_tokens=10)
    assert left == messages[-kept:]
    assert len(messages) == 5
    assert engine.tokenizer.decode(ids).count("<|im_start|>") == kept + 1


def test_a_template_that_refuses_is_one_line_a_question(tmp_path, monkeypatch, capsys):
    folder = folder_with(tmp_path / "strict", 96, "{{ raise_exception('Never.') }}")
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


# --- as processes


def chat(*args):
    return ["chat", "--solution", "--temp", "0", "--max-tokens", *map(str, args)]


def piped(folder, typed: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tiny_llm_course", *chat(5, "--model", folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=env, input=typed, capture_output=True)


def test_piped_in_questions_give_answers_and_nothing_else(babbler):
    done = piped(babbler, b"one\n\n/reset\ntwo \xff\nthree")
    assert done.returncode == 0
    assert b">" not in done.stdout.splitlines()[0][:2]
    lines = done.stderr.decode().splitlines()
    assert [line.split(" in ")[0] for line in lines] == [
        "5 tokens",
        "The conversation is forgotten.",
        "The text is not UTF-8.",
        "5 tokens",
    ]


def test_no_question_is_no_error(babbler):
    done = piped(babbler, b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_conversation_on_a_terminal(babbler):
    with Terminal(*chat(4, "--model", babbler)) as terminal:
        assert terminal.wait_for("\n") == f"babbler. {talk.HELP}\n"
        terminal.wait_for("> ")
        terminal.type("Hello\n")
        terminal.wait_for("stopped: length limit (4 tokens)\n")
        terminal.wait_for("> ")
        terminal.type(f"{UP}\n")  # the same line again
        assert "> Hello" in terminal.wait_for("stopped: length limit") or "Hello" in terminal.screen[-400:]
        terminal.wait_for("> ")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
        assert "Traceback" not in terminal.screen


def test_ctrl_c_stops_an_answer_and_not_the_chat(babbler):
    with Terminal(*chat(2000, "--model", babbler)) as terminal:
        terminal.wait_for("> ")
        terminal.type("Hello\n")
        terminal.wait_for("Hello\n")
        while len(terminal.screen) < terminal.seen + 20:
            terminal.read()
        terminal.type(CTRL_C)
        terminal.wait_for("stopped: interrupted\n")
        terminal.wait_for("> ")
        terminal.type("/quit\n")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.screen


def test_ctrl_c_twice_at_the_prompt_leaves(babbler):
    with Terminal(*chat(4, "--model", babbler)) as terminal:
        terminal.wait_for("> ")
        terminal.type("half a ques")
        terminal.wait_for("ques")
        terminal.type(CTRL_C)
        terminal.wait_for(HINT)
        terminal.wait_for("> ")
        terminal.type("/help\n")
        terminal.wait_for(talk.HELP)
        terminal.wait_for("> ")
        terminal.type(CTRL_C)
        terminal.wait_for(HINT)
        terminal.wait_for("> ")
        terminal.type(CTRL_C)
        assert terminal.end() == 0
        assert "Traceback" not in terminal.screen

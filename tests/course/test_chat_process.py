"""The chat as a process: questions that are piped in, and a terminal with its keys."""

import signal
import subprocess
import sys

import pytest
from tests.course.checkpoint_folders import chatting
from tests.course.terminal import CTRL_C, CTRL_D, UP, Terminal

from tiny_llm_course.engine import talk
from tiny_llm_course.paths import ROOT

HINT = "Ctrl-C once more leaves."


@pytest.fixture(scope="module")
def babbler(tmp_path_factory):
    return chatting(tmp_path_factory.mktemp("models") / "babbler", context=2000)


def chat(*args):
    return ["chat", "--solution", "--temp", "0", "--max-tokens", *map(str, args)]


def piped(folder, typed: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tiny_llm_course", *chat(5, "--model", folder)]
    return subprocess.run(command, cwd=ROOT, input=typed, capture_output=True)


def answering(folder) -> subprocess.Popen[bytes]:
    """A chat with two questions in its pipe, in the midst of its first answer."""
    command = [sys.executable, "-m", "tiny_llm_course", *chat(2000, "--model", folder)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"one\ntwo\n")
    process.stdin.flush()
    process.stdout.read(10)
    return process


def test_piped_in_questions_give_answers_and_nothing_else(babbler):
    done = piped(babbler, b"one\n\n/reset\ntwo \xff\nthree")
    assert done.returncode == 0
    assert not done.stdout.startswith(b">")
    lines = done.stderr.decode().splitlines()
    assert [line.split(" in ")[0] for line in lines] == [
        "5 tokens",
        "The conversation is forgotten.",
        "The text is not UTF-8.",
        "5 tokens",
    ]


def test_ctrl_c_ends_a_chat_with_piped_in_questions(babbler):
    process = answering(babbler)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out[-1:]) == (130, b"\n")
    assert err.endswith(b"stopped: interrupted\n")
    assert err.count(b"\n") == 1


def test_closed_output_ends_quietly(babbler):
    process = answering(babbler)
    process.stdout.close()
    assert (process.wait(30), process.stderr.read()) == (141, b"")
    process.stdin.close()
    process.stderr.close()


def test_no_question_is_no_error(babbler):
    done = piped(babbler, b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_conversation_on_a_terminal(babbler):
    with Terminal(*chat(4, "--model", babbler)) as terminal:
        assert terminal.wait_for("\n") == f"babbler. {talk.HELP}\n"
        terminal.wait_for("> ")
        terminal.type("Hello\n")
        terminal.wait_for("length limit (4 tokens)\n")
        terminal.wait_for("> ")
        terminal.type(f"{UP}\n")  # the same line again
        assert terminal.wait_for("stopped: length limit").startswith("Hello\n")
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

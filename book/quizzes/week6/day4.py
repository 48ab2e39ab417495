"""The quiz of week 6, day 4."""

from typing import Any

from tests.week6.forwarding import alone, scene_of
from tests.week6.health_script import observed, script
from tests.week6.replicas import chosen

from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "6.4.1",
    "Replica `r0` has one running request and none of a prompt's six blocks. `r1` has five running requests and all "
    "six blocks. `r2` is idle, but draining. Which replica gets the request?",
    why="`r2` gets no new requests, so `r0` is the least loaded. `r1` has four more running requests, which is within "
    "MARGIN: sharing the batch with them costs less than prefilling six blocks.",
    mistakes={
        "draining-ones-too": "`r2` is idle because it is about to stop.",
        "margin-excluded": "A difference of four does not exceed MARGIN.",
    },
)
def three_replicas(program: Any) -> str:
    return f"`{chosen(program, 'ready 1/16 *, ready 5/16 +6, draining 0/16 *', 6)}`"


@quiz.question(
    "6.4.2",
    "A replica sends two tokens and dies. Another replica is idle. What does the client receive, event by event?",
    why="After the first token, only an error is honest. The client has part of an answer, and decides for itself "
    "whether to send the request again.",
    mistakes={
        "retried-after-the-first": "The client would read the beginning twice, perhaps in different words.",
        "cut-in-silence": "The client could not tell this answer from a complete one.",
    },
)
def two_tokens(program: Any) -> str:
    lines = scene_of(program, alone("ready 0/16 *, ready 0/16 *", "ab! ab"))
    received = [line.split(" reads ")[1].split(",")[0].removeprefix("A") for line in lines if " reads " in line]
    return ", ".join(f"`{each}`" if len(each) == 1 else "a Failure" for each in received)


@quiz.question(
    "6.4.3",
    "A replica is ready. A request fails, a probe passes, and two more requests fail. With `down=3`, what is its "
    "state?",
    why="The replica answers probes, but no requests. Only an answered request resets the count of failed requests.",
    mistakes={
        "probes-excuse-requests": "A passed probe says that the event loop answers, not that the engine does.",
        "prefixes-kept": "A dead replica's process is killed, and the cache of the next one is empty.",
    },
)
def probes_pass(program: Any) -> str:
    last = observed(program, script("pass*2 fail pass fail*2"))[-1]
    state = last.split(": ")[1].split(",")[0]
    return f"{state}, {'without' if 'no prefixes' in last else 'with'} prefixes"

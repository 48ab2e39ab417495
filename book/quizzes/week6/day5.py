"""The quiz of week 6, day 5."""

from typing import Any

from tests.week6.fleets import Scene, fleet_of, jobs_of, least_loaded
from tests.week6.planning import Fleets

from tiny_llm_course.dev.book.quizzes import Quiz
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.fleet.capacity import Goal  # noqa: E402
from tiny_llm_solution.fleet.jobs import Failure, Job, Outcome  # noqa: E402
from tiny_llm_solution.fleet.replica import Resources, SimulatedReplica  # noqa: E402
from tiny_llm_solution.serving.request import Chunk, Request  # noqa: E402

quiz = Quiz()


@quiz.question(
    "6.5.1",
    "A step has two chunks: the last token of a prompt of 33 tokens, of which 32 were cached, and the token of a "
    "request that decodes at position 50. What is the step's work, as prefilled, decoding and cached tokens?",
    why="The first chunk prefills its one token. Both chunks read the tokens cached before them, 32 and 50.",
    mistakes={
        "one-token-decodes": "A single token may belong to the prompt.",
        "cached-after": "The two new tokens are not cached before the step.",
        "decoding-reads-alone": "The attention of the prompt's last token reads the first 32 tokens, too.",
        "decoding-tokens-prefill": "The cost of a decoding request's token is in another term.",
    },
)
def work(program: Any) -> str:
    prompt, other = Request([1] * 33, 4), Request([1] * 40, 20, output=[2] * 11)
    return ", ".join(map(str, program.work([Chunk(prompt, 32, [1], 1), Chunk(other, 50, [2], 1)])))


@quiz.question(
    "6.5.2",
    "Two replicas run steps of 1 s. A request for three tokens arrives at 0 s and goes to the first replica. Another "
    "request arrives at 0.5 s and goes to the second. The first replica fails at 0.75 s. When does the first request "
    "get its first token?",
    why="It has no token at 0.75 s, so it is sent to the second replica, which is busy with a step until 1.5 s. The "
    "next step ends at 2.5 s.",
    mistakes={
        "never-sent-again": "The client has not received a token, so the request can be sent again.",
        "token-at-start": "A step produces its tokens when it ends.",
        "last-token-is-first": "This is the time of its last token.",
    },
)
def first(program: Any) -> str:
    scene = Scene([(0.0, 4, 3), (0.5, 4, 3)], replicas=2, failures=[(0.75, "r0", 9.0)])
    fleet = fleet_of(scene, SimulatedReplica, Resources)
    found = program(jobs_of(scene, Job), fleet, least_loaded, [Failure(*each) for each in scene.failures])
    return "never" if found[0].first is None else f"{found[0].first:g} s"


@quiz.question(
    "6.5.3",
    "600 replicas are sufficient, and fewer are not. The search may try at most 1,000. What does it return?",
    why="It doubles up to 512, tries 1,000 instead of 1,024, and bisects the interval down to 600.",
    mistakes={
        "power-of-two": "The interval between 512 and 1,000 has not been searched.",
        "one-too-few": "599 is the largest number that is not sufficient.",
        "leaps-over-most": "1,000 itself must be tried before the search gives up.",
    },
)
def returned(program: Any) -> str:
    goal = Goal(0.5, 0.0625)
    found = program(Fleets(Outcome, goal, lambda n, seed: float(n >= 600)), goal, 1000, seeds=[0])
    return f"{found:,}" if found else "None"

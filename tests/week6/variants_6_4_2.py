"""Known programs of task 6.4.2, forwarding."""

from functools import partial

import mlx.core as mx
from tests.week6.forward_scenes import SCENES
from tests.week6.forwarding import random_scene, scene_of
from tiny_llm_solution.router.choice import choose
from tiny_llm_solution.router.forward import Failure, Rejected, ReplicaFailed

from tiny_llm_course.testkit.variants import Variants

known = Variants("6.4.2")


def lines(scene, program):
    """Return a scene's log, as character codes."""
    return mx.array(list("\n".join(scene_of(program, scene)).encode()))


for each, _ in SCENES.values():
    known.probe()(partial(lines, each))
for seed in (1, 4, 6, 11):
    known.probe()(partial(lines, random_scene(seed, 3, 6)))

known.not_timed("the replicas take the time")

ATTEMPT = """
        try:
            async with aclosing(send(replica, request)) as events:
                async for event in events:
                    begun = True
                    yield event
            report(replica, "answered")
            return
        except Rejected as error:
            waits.append(error.seconds)
            report(replica, "rejected")
        except ReplicaFailed:
            report(replica, "failed")
        finally:
            replica.running -= 1
"""
BROKEN = """
        if begun:
            yield Failure(502, f"{replica.name} failed in the middle of the answer.")
            return
"""
AT_ONCE = "if begun:\n    yield Failure(502, replica.name)\n    return\n"
known.change(
    "retried-after-the-first",
    (BROKEN, ""),
    fact="an answer that breaks off is begun again on another replica",
    question="The client has read the beginning of an answer. What does it read next?",
)
known.change(
    "retried-after-a-late-rejection",
    (
        '            report(replica, "rejected")\n',
        '            report(replica, "rejected")\n            begun = False\n',
    ),
    fact="an answer that breaks off with a Rejected is begun again on another replica",
    question="The client has read two tokens. Does it matter to it why there is no third one?",
)
known.change(
    "cut-in-silence",
    (BROKEN, "\n        if begun:\n            return\n"),
    fact="an answer that breaks off just ends, as if it were complete",
    question="How does the client tell half a story from a whole one?",
)
known.change(
    "never-retried",
    (BROKEN, BROKEN.replace("if begun:", "if begun or not waits:")),
    fact="a failure before the first event is not retried",
    question="Which tokens has the client received by then?",
)
known.change(
    "rejections-not-retried",
    (
        'report(replica, "rejected")',
        'report(replica, "rejected")\nattempts = 0',
    ),
    fact="a request that one replica has rejected is not sent to another one",
    question="One replica's queue is full. What do you know about the queues of the others?",
)
known.change(
    "same-replica-again",
    ("choose([each for each in replicas if each not in tried], blocks)", "choose(replicas, blocks)"),
    fact="a retry may choose the replica that has just failed",
    question="Which replica has the prompt's prefix, and was chosen for it? What will be chosen the next time?",
)
known.change(
    "without-end",
    ("while len(tried) < attempts:", "while True:"),
    fact="all replicas are tried, whatever `attempts` says",
    question="A request crashes any server that gets it. How many servers does it crash?",
)
known.change(
    "one-attempt-more",
    ("while len(tried) < attempts:", "while len(tried) <= attempts:"),
    fact="one replica more than `attempts` is tried",
    question="With attempts=2, how many replicas get the request?",
)
known.change(
    "counted-with-the-first-event",
    ("replica.running += 1  # at once: the next request must see it", ""),
    ("begun = True", "replica.running += not begun\nbegun = True"),
    ("finally:\n    replica.running -= 1", "finally:\n    replica.running -= begun"),
    fact="a request counts only from its first event on",
    question="Eight requests arrive in a millisecond. What is `running` when the eighth is routed?",
)
known.change(
    "released-when-answered",
    ("finally:\n    replica.running -= 1", "finally:\n    pass"),
    ('report(replica, "answered")\nreturn', 'report(replica, "answered")\nreplica.running -= 1\nreturn'),
    fact="the count is released only after a complete answer",
    question="A hundred clients have closed their tabs. How loaded does the router think the replica is?",
)
known.change(
    "released-by-exceptions-only",
    (
        "finally:\n    replica.running -= 1",
        "except GeneratorExit:\n    raise\nelse:\n    pass",
    ),
    (
        'report(replica, "answered")\nreturn',
        'report(replica, "answered")\nreplica.running -= 1\nreturn',
    ),
    ('report(replica, "rejected")', 'report(replica, "rejected")\nreplica.running -= 1'),
    ('report(replica, "failed")', 'report(replica, "failed")\nreplica.running -= 1'),
    fact="a client that leaves is still counted as running",
    question="aclose() raises GeneratorExit at your yield. Which of your lines run then?",
)
known.change(
    "failure-before-the-release",
    ('report(replica, "rejected")\n', f'report(replica, "rejected")\n{AT_ONCE}'),
    ('report(replica, "failed")\n', f'report(replica, "failed")\n{AT_ONCE}'),
    fact="the Failure is yielded while the request still counts, for as long as the client does not read on",
    question="A generator stops at a yield until its reader wants more. Which lines come after yours?",
)
known.change(
    "not-closed",
    (
        "async with aclosing(send(replica, request)) as events:\n    async for event in events:\n"
        "        begun = True\n        yield event\n",
        "async for event in send(replica, request):\n    begun = True\n    yield event\n",
    ),
    fact="the replica's answer is not closed when the client leaves, so the replica computes on",
    question="A for loop over an async generator is left. Who calls its aclose, and when?",
)
known.change(
    "prefixes-forgotten",
    ("replica.prefixes.add(blocks)", ""),
    fact="the prompt's blocks are not added to the replica's prefixes",
    question="The next turn of the conversation arrives. How does `choose` know where the last one went?",
)
known.change(
    "prefixes-with-the-first-event",
    ("replica.prefixes.add(blocks)", ""),
    ("begun = True", "begun = True\nreplica.prefixes.add(blocks)"),
    fact="the blocks are added with the first event, so requests with one prefix that arrive together are scattered",
    question="Two requests with one long prompt arrive in a millisecond. Which replica has the prefix for the second?",
)
known.change(
    "rejection-is-a-failure",
    ('waits.append(error.seconds)\nreport(replica, "rejected")', 'report(replica, "failed")'),
    fact="a rejection is treated as a failure: reported as one, and its seconds are lost",
    question="A full replica says when to come back. Is it broken?",
)
known.change(
    "longest-wait",
    ("min(waits, default=RETRY_AFTER)", "max(waits, default=RETRY_AFTER)"),
    fact="Retry-After is that of the slowest replica",
    question="One replica has a place in 3 s, the other one in 7 s. When should the client come back?",
)
known.change(
    "last-wait",
    ("min(waits, default=RETRY_AFTER)", "waits[-1] if waits else RETRY_AFTER"),
    fact="Retry-After is that of the last replica that rejected the request, not the shortest",
    question="Three replicas have a place in 7 s, 3 s and 5 s. When should the client come back?",
)
known.change(
    "sets-the-state",
    ('report(replica, "failed")', 'report(replica, "failed")\nreplica.state = "dead"'),
    fact="a replica that fails one request is set dead at once",
    question="One connection was reset. How many failures does the health check wait for?",
)
known.change(
    "always-503",
    ('if waits or (not tried and any(replica.state == "ready" for replica in replicas)):', "if waits:"),
    fact="the status is 503 when all replicas are at their limit",
    question="Every replica is healthy and full. Is the service unavailable?",
)
known.change(
    "always-429",
    (
        'if waits or (not tried and any(replica.state == "ready" for replica in replicas)):',
        'if waits or any(replica.state == "ready" for replica in replicas):',
    ),
    fact="the status is 429 also after failures",
    question="Two replicas have broken the connection. Does the client send too much?",
)
known.change(
    "leaving-is-a-failure",
    (
        "finally:\n    replica.running -= 1",
        'except BaseException:\n    report(replica, "failed")\n    raise\nfinally:\n    replica.running -= 1',
    ),
    fact="a client that leaves is reported as a failure of the replica",
    question="Three users press Stop. Is the replica dead?",
)
known.change(
    "all-errors-retried",
    ("except ReplicaFailed:", "except Exception:"),
    fact="every exception counts as a failure of the replica, also a mistake in `send`",
    question="A KeyError in your own code: does another replica help?",
)
known.change(
    "answered-not-reported",
    ('report(replica, "answered")\n', ""),
    fact="complete answers are not reported",
    question="Three requests have failed in a week, a million in between have not. How does the health check know?",
)
known.change(
    "reported-after-the-release",
    ('report(replica, "answered")\nreturn', 'outcome = "answered"'),
    ('report(replica, "rejected")', 'outcome = "rejected"'),
    ('report(replica, "failed")', 'outcome = "failed"'),
    ("if begun:", 'report(replica, outcome)\nif outcome == "answered":\n    return\nif begun:'),
    fact="the outcome is reported after the count was released",
    question="The report looks at `running` to set a limit. Does it see the rejected request?",
)
known.change(
    "reported-in-the-finally",
    ("begun = False", 'begun, outcome = False, "answered"'),
    ('report(replica, "answered")\n', ""),
    ('report(replica, "rejected")', 'outcome = "rejected"'),
    ('report(replica, "failed")', 'outcome = "failed"'),
    ("finally:\n    replica.running -= 1", "finally:\n    report(replica, outcome)\n    replica.running -= 1"),
    fact="an answer that a client leaves, or that another exception ends, is reported as answered",
    question="A client leaves in the middle of an answer. Which of your lines run then, and what do they report?",
)


@known.accepted("one try for each attempt, in a function of its own")
async def in_a_function(request, blocks, replicas, send, report, attempts=3):
    tried, waits, state = set(), [], {}

    async def attempt(replica):
        events = send(replica, request)
        try:
            async for event in events:
                state["begun"] = True
                yield event
        except Rejected as error:
            waits.append(error.seconds)
            state["end"] = "rejected"
        except ReplicaFailed:
            state["end"] = "failed"
        else:
            state["end"] = "answered"
        finally:
            await events.aclose()

    for _ in range(attempts):
        replica = choose(tuple(each for each in replicas if each.name not in tried), blocks)
        if replica is None:
            break
        tried.add(replica.name)
        replica.prefixes.add(blocks)
        replica.running += 1
        state.clear()
        events = attempt(replica)
        try:
            async for event in events:
                yield event
            report(replica, state["end"])
        finally:
            await events.aclose()
            replica.running -= 1
        if state["end"] == "answered":
            return
        if "begun" in state:
            yield Failure(502, f"the answer of {replica.name} broke off")
            return
    full = waits or (not tried and [each for each in replicas if each.state == "ready"])
    yield Failure(429 if full else 503, "try again", min(waits) if waits else 1)

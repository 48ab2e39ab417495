"""Known programs of task 6.4.3, the health of a replica."""

from functools import partial

import mlx.core as mx
from tests.week6.health_script import observed, random_script, script

from tiny_llm_course.testkit.variants import Variants

known = Variants("6.4.3")

SCRIPTS = """
pass miss pass pass
miss*9 pass*2
pass*2 miss*3
pass*2 miss*2 pass miss*2
pass*2 fail*2 ok fail*2
pass*2 fail pass fail pass fail
pass*2 miss ok miss ok miss
pass*2 miss fail miss fail
fail*2 pass*2 fail
fail*5 miss*5
pass*2 run=3 exit pass*2
pass*2 miss*3 pass*2
pass*2 fail*2 exit pass*2 fail
pass*2 exit pass start pass*2
pass*2 start
pass*2 run=2 drain pass*5
pass*2 run=2 drain miss*3
pass*2 run=5 drain fail*3
pass*2 run=2 drain run=0 ok
drain pass*3
pass*2 exit drain
pass*2 run=5 full run=7 full
pass*2 run=1 full
pass*2 run=5 full ok*9
pass*2 ok*12
pass*2 run=5 fail full fail full fail
pass*2 run=3 full exit start pass*2
pass*2 miss*3 pass exit pass
pass*2 run=3 miss*3 full exit pass*2
""".strip().splitlines()
ALL = [script(text) for text in SCRIPTS] + [random_script(seed, 40) for seed in range(10)]


def codes(scripts, program):
    """What is seen, as character codes."""
    return mx.array(list("\n".join(line for words in scripts for line in observed(program, words)).encode()))


for at in range(0, len(ALL), 3):
    known.probe()(partial(codes, ALL[at : at + 3]))
known.probe()(lambda program: mx.array(list("".join(observed(program, ALL[2] + ALL[4], up=1, down=2)).encode())))

known.not_timed("it takes microseconds")

known.change(
    "probes-excuse-requests",
    (
        "self._passed, self._failed_probes = self._passed + 1, 0",
        "self._passed, self._failed_probes = self._passed + 1, 0\nself._failed_requests = 0",
    ),
    fact="a passed probe resets the count of failed requests",
    question="GET /health answers, and every completion fails. After which failure is the replica dead?",
)
known.change(
    "one-count",
    (
        "self._failed_requests += 1\nself._check(self._failed_requests)",
        "self._failed_probes += 1\nself._check(self._failed_probes)",
    ),
    fact="failed probes and failed requests share one count",
    question="One failed probe and two failed requests: is that three of a kind?",
)
known.change(
    "answers-excuse-probes",
    ("self._failed_requests = 0\n", "self._failed_requests = self._failed_probes = 0\n"),
    fact="an answered request resets the count of failed probes",
    question="Which event ends a row of failed probes, by the docstring?",
)
known.change(
    "not-in-a-row",
    ("self._passed, self._failed_probes = 0, self._failed_probes + 1", "self._failed_probes += 1"),
    fact="passed probes are counted although others failed in between",
    question="Passed, failed, passed: how many are in a row?",
)
known.change(
    "failures-add-up",
    ("self._failed_requests = 0\n", "pass\n"),
    fact="failed requests add up although others were answered in between",
    question="Three requests of a million fail. When is the replica dead?",
)
known.change(
    "probes-add-up",
    ("self._passed, self._failed_probes = self._passed + 1, 0", "self._passed += 1"),
    fact="failed probes add up although others passed in between",
    question="A probe fails each night. On which day is the replica dead?",
)
known.change(
    "one-failure-more",
    ("failures >= self._down", "failures > self._down"),
    fact="it takes one failure more than `down`",
    question="With down=3, which failure is the last one?",
)
known.change(
    "loading-is-failing",
    ('self.replica.state in ("ready", "draining") and failures', 'self.replica.state != "dead" and failures'),
    fact="failed probes and failed requests make a starting replica dead",
    question="A model of 16 GB takes a minute to load. Which probes pass meanwhile?",
)
known.change(
    "failures-in-any-state",
    ('if self.replica.state in ("ready", "draining") and failures >= self._down:', "if failures >= self._down:"),
    fact="failed probes and failed requests count in every state, so they make a starting replica dead",
    question="A model of 16 GB takes a minute to load. What do its probes find meanwhile?",
)
known.change(
    "probed-to-death",
    (
        "self._check(self._failed_probes)",
        'if state == "starting" and self._failed_probes >= self._down:\n'
        '    self._enter("dead")\n'
        "self._check(self._failed_probes)",
    ),
    fact="failed probes make a starting replica dead, although failed requests do not",
    question="A model of 16 GB takes a minute to load. What does a probe find meanwhile?",
)
known.change(
    "draining-forever",
    ('self.replica.state in ("ready", "draining") and failures', 'self.replica.state == "ready" and failures'),
    fact="a draining replica never becomes dead by failures",
    question="A replica hangs while it drains. Who waits for its requests?",
)
known.change(
    "dead-one-drains",
    ('case "drain" if state in ("starting", "ready"):', 'case "drain" if state != "draining":'),
    fact='"drain" makes a dead replica draining',
    question="A process has ended. What is left to finish before it may stop?",
)
known.change(
    "draining-is-undone",
    ('if state in ("starting", "dead") and', 'if state != "ready" and'),
    fact="passed probes make a draining replica ready again",
    question="A draining replica is healthy: its probes pass. Should it get requests?",
)
known.change(
    "never-comes-back",
    ('if state in ("starting", "dead") and', 'if state == "starting" and'),
    fact="a dead replica that passes probes stays dead",
    question="The network was down for ten seconds. How many replicas have you got now?",
)
known.change(
    "prefixes-kept",
    ("self.replica.prefixes.clear()", "pass"),
    fact="a dead replica's prefixes are kept, although its cache is gone",
    question="What is in the prefix cache of a process that was started a second ago?",
)
known.change(
    "running-reset",
    ("self.replica.prefixes.clear()", "self.replica.prefixes.clear()\nself.replica.running = 0"),
    fact="the running count is set to 0 when a replica dies",
    question="Three requests run when it dies, and each of them is released afterwards. What is the count then?",
)
known.change(
    "limit-kept",
    ("self.replica.limit = self._limit\n", "pass\n"),
    fact="a new process begins with the lowered limit of the old one",
    question="Why was the limit lowered? Is that reason still there?",
)
known.change(
    "counts-kept",
    ("self.replica.state = state\nself._reset()", "self.replica.state = state"),
    fact="the counts are not reset when the state changes",
    question="Two requests failed, then the process was replaced. How many failures has the new one?",
)
known.change(
    "limit-of-all-running",
    ("self.replica.running - 1", "self.replica.running"),
    fact="the rejected request itself is counted into the limit",
    question="Five are running, one of which was just rejected. How many fit?",
)
known.change(
    "limit-lowered-by-one",
    ("min(self.replica.limit, max(1, self.replica.running - 1))", "max(1, self.replica.limit - 1)"),
    fact="a rejection lowers the limit by one, however many requests are running",
    question="The limit is 16, and one of five running requests is rejected. How many fit?",
)
known.change(
    "limit-without-a-floor",
    ("max(1, self.replica.running - 1)", "self.replica.running - 1"),
    fact="the limit can become 0, and then no answer ever raises it again",
    question="A replica whose limit is 0 gets no request. Which event would raise its limit?",
)
known.change(
    "limit-raised-by-rejections",
    ("min(self.replica.limit, max(1, self.replica.running - 1))", "max(1, self.replica.running - 1)"),
    fact="a rejection can raise the limit",
    question="The limit was 4, and 7 were running since before. What did the replica say?",
)
known.change(
    "limit-of-sixteen",
    ("self._limit = replica.limit", "self._limit = 16"),
    fact="the largest limit is always 16, whatever its first value is",
    question="A replica was created with a limit of 8. How many requests does its server take at once?",
)
known.change(
    "limit-without-end",
    ("min(self.replica.limit + 1, self._limit)", "self.replica.limit + 1"),
    fact="answers raise the limit beyond its first value",
    question="A thousand requests were answered. How many does the replica take at once?",
)
known.change(
    "rejections-are-failures",
    (
        'case "rejected":\n',
        'case "rejected":\n    self._failed_requests += 1\n    self._check(self._failed_requests)\n',
    ),
    fact="a rejection counts as a failed request",
    question="Under load every replica rejects. How many are left if each rejection is a failure?",
)
known.change(
    "idle-is-drained",
    ('self.replica.state == "draining" and not self.replica.running', "not self.replica.running"),
    fact="every idle replica counts as drained, whatever its state is",
    question="A replica is ready and has no requests yet. Should its process be stopped?",
)
known.change(
    "drained-with-requests",
    ('self.replica.state == "draining" and not self.replica.running', 'self.replica.state == "draining"'),
    fact="a draining replica counts as drained while requests run",
    question="You stop the process as soon as it is drained. What happens to the two requests that run?",
)
known.change(
    "started-again",
    ('case "started" if state == "dead":', 'case "started":'),
    fact="a replica in any state becomes starting",
    question='The replica is ready when "started" arrives late. What does the router lose?',
)
known.change(
    "exit-of-a-dead-one-ignored",
    ('case "exited":', 'case "exited" if state != "dead":'),
    fact="counts and limit stay as they are when the process of a dead replica ends",
    question="One probe of the old process has passed. What does that say of the new one?",
)


@known.accepted("tables of counts")
class Tables:
    def __init__(self, replica, up=2, down=3):
        self.replica, self.up, self.down, self.most = replica, up, down, replica.limit
        self.rows = {}

    def observe(self, event):
        r, rows = self.replica, self.rows
        ends = {"probe passed": "probe failed", "probe failed": "probe passed", "answered": "failed"}
        if event in ends:
            rows[ends[event]] = 0
        rows[event] = rows.get(event, 0) + 1
        serving = r.state == "ready" or r.state == "draining"
        failures = rows.get("probe failed", 0), rows.get("failed", 0)
        if event == "exited" or (serving and event in ("probe failed", "failed") and max(failures) >= self.down):
            r.state, r.limit = "dead", self.most
            r.prefixes.clear()
            rows.clear()
        elif event == "probe passed" and not serving and rows[event] >= self.up:
            r.state = "ready"
            rows.clear()
        elif event == "started" and r.state == "dead":
            r.state = "starting"
            rows.clear()
        elif event == "drain" and r.state in ("starting", "ready"):
            r.state = "draining"
            rows.clear()
        elif event == "answered" and r.limit < self.most:
            r.limit += 1
        elif event == "rejected":
            r.limit = min(r.limit, r.running - 1 if r.running > 1 else 1)

    @property
    def drained(self):
        return (self.replica.state, self.replica.running) == ("draining", 0)

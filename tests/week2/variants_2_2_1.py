"""Reference variants of task 2.2.1, the stopwatch."""

import time

import mlx.core as mx
from mlx.utils import tree_flatten
from tests.week2.stopwatch import Stopwatch
from tiny_llm_solution.measure.timing import Timing

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.2.1")

DECREASING = (64.0, 32.0, 3.0, 0.5, 8.0, 1.0, 2.0)


def figures(program, seconds, **settings):
    """Return the fields for scripted runs; `least_seconds` is above 0, so that reading a different clock never ends."""
    watch = Stopwatch(seconds)
    found = program(watch.program, clock=watch.clock, **settings)
    return mx.array([found.median, found.fastest, found.slowest, found.runs], mx.float32)


def happened(program, *, started=False, form="an array", long=False, leaves=False, **settings):
    """Return the events, the counts of unevaluated arrays, and whether MLX was busy before and after a run."""
    watch = Stopwatch((0.25, 0.5), form, long, leaves)
    if started:
        watch.start_something()
    program(watch.program, clock=watch.clock, least_seconds=0, **settings)
    events = mx.array([event == "clock" for event in watch.events])
    before, after = (any(watch.busy[i::2]) for i in (0, 1))
    return events, mx.array(watch.uncomputed), mx.array([before, after and not leaves])


known.probe_table(
    figures=lambda program: figures(program, DECREASING, least_seconds=0.125, least_runs=5),
    even=lambda program: figures(program, DECREASING, least_seconds=0.125, least_runs=4, warm_up=2),
    defaults=lambda program: figures(program, (4.0, 0.125, 0.0625, 0.0625)),
    # Four runs reach the seconds exactly.
    long_enough=lambda program: figures(program, (2.0, 0.25, 0.125, 0.375, 0.25), least_seconds=1.0, least_runs=2),
    order=lambda program: happened(program, least_runs=3, warm_up=2),
    list=lambda program: happened(program, form="a list of two arrays", least_runs=2),
    deep=lambda program: happened(program, form="a list of dicts of lists of arrays", least_runs=2),
    long=lambda program: happened(program, long=True, least_runs=2, warm_up=0),
    started=lambda program: happened(program, started=True, form="a number", least_runs=2, warm_up=0),
    left_behind=lambda program: happened(program, leaves=True, form="None", least_runs=3, warm_up=0),
    refuses=lambda program: refusals(lambda runs: figures(program, (1.0,), least_runs=runs), (1, 0)),
)


known.not_timed("it takes as long as the timed program")


known.change(
    "graph-only",
    ("started = clock()\nmx.eval(program())", "started = clock()\nprogram()"),
    fact="the timed region calls the program but does not evaluate its result",
    question="y = x @ x has run. What has been computed?",
)
known.change(
    "first-array-only",
    (
        "started = clock()\nmx.eval(program())",
        """
        started = clock()
        result = program()
        mx.eval(result[0] if isinstance(result, list | tuple) else result)
        """,
    ),
    fact="only the first element of a list or tuple is evaluated in the timed region",
    question="A model returns logits and caches. Which of them does your clock wait for?",
)
known.change(
    "dicts-left-out",
    (
        "for _ in range(warm_up):\n    mx.eval(program())",
        """
        def arrays(tree):
            if isinstance(tree, list | tuple):
                return [array for item in tree for array in arrays(item)]
            return [tree] if isinstance(tree, mx.array) else []

        for _ in range(warm_up):
            mx.eval(arrays(program()))
        """,
    ),
    ("started = clock()\nmx.eval(program())", "started = clock()\nmx.eval(arrays(program()))"),
    fact="arrays inside dicts are not evaluated",
    question='A program returns {"logits": x}. Which arrays does your code evaluate?',
)
known.change(
    "started-only",
    ("started = clock()\nmx.eval(program())", "started = clock()\nmx.async_eval(program())"),
    fact="the timed region starts the work, but does not wait for it to finish",
    question="Does mx.async_eval wait for the work?",
)
known.change(
    "warm-up-uncomputed",
    ("for _ in range(warm_up):\n    mx.eval(program())", "for _ in range(warm_up):\n    program()"),
    fact="the warm-up runs evaluate nothing",
    question="When does MLX load and compile what a program needs?",
)
known.change(
    "no-warm-up",
    ("for _ in range(warm_up):", "for _ in range(0):"),
    fact="there are no warm-up runs",
    question="What does a first run do that later runs do not have to repeat?",
)
known.change(
    "warm-up-timed",
    ("for _ in range(warm_up):", "for _ in range(0):"),
    ("len(taken) < least_runs", "len(taken) < least_runs + warm_up"),
    fact="the warm-up runs are timed and counted",
    question="A first run takes 64 s, five others 1 s each. What should the slowest be?",
)
known.change(
    "warm-up-dropped-later",
    ("for _ in range(warm_up):", "for _ in range(0):"),
    ("len(taken) < least_runs", "len(taken) < warm_up + least_runs"),
    ("return Timing(", "taken = taken[warm_up:]\nreturn Timing("),
    fact="the warm-up runs are timed too and count toward least_seconds, and their times are dropped later",
    question="A warm-up run takes 64 s, and least_seconds is 0.5. How much time do the other runs take in all?",
)
known.change(
    "warm-up-counted",
    ("len(taken))", "len(taken) + warm_up)"),
    fact="the warm-up runs are included in the reported number of runs",
    question="Which runs were timed?",
)
known.change(
    "queue-not-awaited",
    ("mx.synchronize()", "pass"),
    fact="the clock starts while MLX is still busy with earlier work",
    question="Another part of the program has just called mx.async_eval. Is that part of your measurement?",
)
known.change(
    "queue-awaited-once",
    ("mx.synchronize()", "if not taken:\n    mx.synchronize()"),
    fact="earlier work is waited for before the first run only",
    question="A run may start work that is not part of its result. When does that work end?",
)
known.change(
    "clock-before-the-wait",
    ("mx.synchronize()\nstarted = clock()", "started = clock()\nmx.synchronize()"),
    fact="the clock is read before earlier work has been waited for, so its time is included",
    question="What does mx.synchronize() wait for, and does your clock run meanwhile?",
)
known.change(
    "mean",
    ("statistics.median(taken)", "statistics.mean(taken)"),
    fact="the mean is returned as the median",
    question="Nine runs take 1 s, and one takes 100 s. How long does a typical run take?",
)
known.change(
    "upper-of-two",
    ("statistics.median(taken)", "sorted(taken)[len(taken) // 2]"),
    fact="the median of an even number of runs is the upper of the two middle values",
    question="What is the median of 1, 2, 3 and 4?",
)
known.change(
    "fastest-for-median",
    ("Timing(statistics.median(taken)", "Timing(min(taken)"),
    fact="the fastest run is returned as the median",
    question="How many of the runs took no longer than your median?",
)
known.change(
    "one-is-enough",
    ("len(taken) < least_runs or", "len(taken) < least_runs and"),
    fact="timing stops as soon as either least_runs or least_seconds is reached",
    question="Three runs of a microsecond each: would you trust their median?",
)
known.change(
    "seconds-ignored",
    (" or sum(taken) < least_seconds", ""),
    fact="there are never more than least_runs runs",
    question="Three runs of a microsecond each: would you trust their median?",
)
known.change(
    "runs-ignored",
    ("len(taken) < least_runs or sum(taken)", "sum(taken)"),
    fact="timing stops at least_seconds, even with fewer than least_runs runs",
    question="The first run takes a second. Is one run enough for a median?",
)
known.change(
    "one-run-more",
    ("len(taken) < least_runs", "len(taken) <= least_runs"),
    fact="there is one run more than least_runs",
    question="With least_runs = 3 and slow runs, how many runs should there be?",
)
known.change(
    "seconds-exceeded",
    ("sum(taken) < least_seconds", "sum(taken) <= least_seconds"),
    fact="there is one run too many when the seconds are reached exactly",
    question="Four runs take 0.25 s each. Have they reached least_seconds = 1?",
)
known.change(
    "one-clock-for-all",
    ("taken: list[float] = []", "taken: list[float] = []\nbegun = clock()"),
    ("or sum(taken) < least_seconds", "or clock() - begun < least_seconds"),
    fact="the clock is also read between the runs, to decide whether to continue",
    question="What do the seconds that you compare with least_seconds include besides the runs?",
)
known.change(
    "one-clock-asked-first",
    ("taken: list[float] = []", "taken: list[float] = []\nbegun = clock()"),
    ("len(taken) < least_runs or sum(taken) < least", "clock() - begun < least_seconds or len(taken) < least"),
    ("or len(taken) < least_seconds", "or len(taken) < least_runs"),
    fact="the clock is also read before the runs and between them, to decide whether to continue",
    question="What do the seconds that you compare with least_seconds include besides the runs?",
)
known.change(
    "clock-once-more",
    ("taken.append(clock() - started)", "taken.append(clock() - started)\nclock()"),
    fact="the clock is read a third time in each run",
    question="How often does the docstring say that the clock is read in a run, and when?",
)
known.change(
    "ends-are-starts",
    ("taken: list[float] = []", "taken: list[float] = []\nmx.synchronize()\nended = clock()"),
    ("mx.synchronize()\nstarted = clock()", "started = ended"),
    ("taken.append(clock() - started)", "ended = clock()\ntaken.append(ended - started)"),
    fact="the clock is read once per run: the end of a run is the start of the next one",
    question="What happens between two runs, and in which of your times is it?",
)
known.change(
    "warm-up-clocked",
    ("for _ in range(warm_up):\n", "for _ in range(warm_up):\n    mx.synchronize()\n    clock()\n"),
    ("taken: list[float] = []", "    clock()\ntaken: list[float] = []"),
    fact="the clock is also read before and after each warm-up run",
    question="Which runs does the docstring say are timed?",
)
known.change(
    "clock-ignored",
    ("started = clock()", "started = time.perf_counter()"),
    ("clock() - started", "time.perf_counter() - started"),
    fact="the `clock` argument is never read",
    question="Which clock do you read?",
)
known.change(
    "no-runs-accepted",
    ("if least_runs < 1:", "if least_runs < 0:"),
    fact="least_runs = 0 is accepted",
    question="What is the median of no runs?",
)


@known.wrong(
    "timed-together",
    fact="all runs are timed together, and the total is divided by their number",
    question="One run of ten was disturbed. Where would you see that?",
)
def timed_together(program, *, least_seconds=0.5, least_runs=3, warm_up=1, clock=time.perf_counter):
    if least_runs < 1:
        raise ValueError(f"{least_runs} runs")
    for _ in range(warm_up):
        mx.eval(program())
    mx.synchronize()
    started, runs, total = clock(), 0, 0.0
    while runs < least_runs or total < least_seconds:
        mx.eval(program())
        runs, total = runs + 1, clock() - started
    return Timing(total / runs, total / runs, total / runs, runs)


@known.wrong(
    "called-once",
    fact="the program is called once, and its result is evaluated again and again",
    question="How long does mx.eval take for an array that has been evaluated already?",
)
def called_once(program, *, least_seconds=0.5, least_runs=3, warm_up=1, clock=time.perf_counter):
    if least_runs < 1:
        raise ValueError(f"{least_runs} runs")
    result, taken = program(), []
    for _ in range(warm_up):
        mx.eval(result)
    while len(taken) < least_runs or sum(taken) < least_seconds:
        mx.synchronize()
        started = clock()
        mx.eval(result)
        taken.append(clock() - started)
    return Timing(sorted(taken)[len(taken) // 2], min(taken), max(taken), len(taken))


@known.accepted("by-hand")
def by_hand(program, *, least_seconds=0.5, least_runs=3, warm_up=1, clock=time.perf_counter):
    """Collect the leaves, use one loop for warm-up and timed runs, and sort to find the median."""
    if not least_runs >= 1:
        raise ValueError(f"{least_runs} runs")
    times, total, number = [], 0.0, 0

    def run():
        leaves = [x for _, x in tree_flatten(program()) if isinstance(x, mx.array)]
        if leaves:
            mx.eval(*leaves)

    while True:
        number += 1
        if number <= warm_up:
            run()
            continue
        mx.synchronize(mx.default_stream(mx.default_device()))
        before = clock()
        run()
        times.append(clock() - before)
        total += times[-1]
        if len(times) >= least_runs and total >= least_seconds:
            break
    times.sort()
    middle = len(times) // 2
    median = times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2
    return Timing(median=median, fastest=times[0], slowest=times[-1], runs=len(times))


@known.accepted("waits-twice")
def waits_twice(program, *, least_seconds=0.5, least_runs=3, warm_up=1, clock=time.perf_counter):
    if least_runs <= 0:
        raise ValueError(least_runs)

    def run():
        result = program()
        mx.eval(result)
        mx.synchronize()

    for _ in range(warm_up):
        run()
    taken = []
    while sum(taken) < least_seconds or len(taken) < least_runs:
        mx.synchronize()
        start = clock()
        run()
        end = clock()
        taken += [end - start]
    ordered = sorted(taken)
    return Timing((ordered[(len(taken) - 1) // 2] + ordered[len(taken) // 2]) / 2, ordered[0], ordered[-1], len(taken))

"""Known programs of task 6.1.3, the cost model."""

import math

import mlx.core as mx
import numpy as np
from tests.week6.messages import ALGORITHMS
from tiny_llm_solution.distributed.cost import CostModel

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.1.3")

NOISY = [8, 512, 16_384, 500_000, 9_000_000], [21e-6, 18e-6, 31e-6, 240e-6, 4.9e-3]
SHORT = [8, 8, 8, 1_000_000], [19e-6, 26e-6, 22e-6, 560e-6]
REFUSED = [([], []), ([8], [1e-5]), ([8, 8], [1e-5, 2e-5]), ([8, 80], [1e-5]), ([8, 80], [1e-5, 0.0]),
           ([8, 80], [-1e-5, 1.0])]  # fmt: skip


def fit(program, sizes, seconds):
    """Return microseconds, and nanoseconds per byte, one after another."""
    found = program.fit(sizes, seconds)
    return mx.array(1e6 * found.latency), mx.array(1e9 * found.seconds_per_byte)


def seconds(name):
    """Return a probe of one algorithm, in microseconds."""

    def probe(program):
        model = program(20e-6, 0.5e-9)
        return tuple(mx.array(1e6 * getattr(model, name)(n, ranks)) for n in (4096, 6e6) for ranks in (1, 2, 3, 4, 8))

    return probe


known.probe_table(
    on_a_line=lambda program: fit(program, [8, 1000, 2_000_000], [20e-6, 21e-6, 1020e-6]),
    noisy=lambda program: fit(program, *NOISY),
    repeated=lambda program: fit(program, *SHORT),
    below_zero=lambda program: fit(program, [8, 1000, 2000], [1e-6, 500e-6, 1010e-6]),
    backwards=lambda program: fit(program, *(each[::-1] for each in NOISY)),
    refused=lambda program: refusals(lambda each: fit(program, *each), REFUSED),
    message=lambda program: tuple(mx.array(1e6 * program(20e-6, 0.5e-9).message(n)) for n in (0, 1000, 6e6)),
    crossover=lambda program: tuple(mx.array(1e-3 * program(20e-6, 0.5e-9).crossover(ranks)) for ranks in (3, 4, 16)),
    of_two=lambda program: mx.array(program(20e-6, 0.5e-9).crossover(2)),
    several=lambda program: tuple(mx.array(1e-3 * program(30e-6, 1e-9).crossover(ranks)) for ranks in (3, 5, 64)),
    **{name: seconds(name) for name in ALGORITHMS},
)
known.not_timed("a few multiplications")


STEPS = "return (ranks - 1) * self.message(num_bytes / ranks)"
GATHER = '"""Return the seconds for a ring all-gather: as many steps of the same size."""\n'
WHOLE = "return (ranks - 1) * self.message(num_bytes)"
COLUMNS = "predicted_over_measured = np.stack([1 / t, n / t], axis=1)"
SOLVED = "np.linalg.lstsq(predicted_over_measured / scale, np.ones_like(t))"
CROSSOVER = "return math.inf if ranks <= 2 else self.latency / self.seconds_per_byte * ranks / (ranks - 2)"
known.change(
    "absolute-errors",
    (COLUMNS, COLUMNS.replace("[1 / t, n / t]", "[np.ones_like(t), n]")),
    (SOLVED, SOLVED.replace("np.ones_like(t)", "t")),
    fact="the fit minimizes absolute errors, so that the largest messages decide",
    question="A message of 64 MB takes 30 ms, measured with an error of 10%. What does that do to a latency of 20 us?",
)
known.change(
    "divided-by-the-root",
    (COLUMNS, COLUMNS.replace("[1 / t, n / t]", "[1 / t**0.5, n / t**0.5]")),
    (SOLVED, SOLVED.replace("np.ones_like(t)", "t**0.5")),
    fact="the fit divides the squared errors by the times, not by the squares of the times",
    question="An error of 2 us in 20 us is 10%. What is its share of your sum, and what is that of 2 ms in 20 ms?",
)
known.change(
    "divided-twice",
    (COLUMNS, COLUMNS.replace("[1 / t, n / t]", "[1 / t**2, n / t**2]")),
    (SOLVED, SOLVED.replace("np.ones_like(t)", "1 / t")),
    fact="the fit divides the errors by the times twice, so that the smallest messages decide",
    question="Is an error of 10% of a large message as bad as one of 10% of a small message?",
)
known.change(
    "divided-by-bytes",
    (COLUMNS, COLUMNS.replace("[1 / t, n / t]", "[1 / n, np.ones_like(t)]")),
    (SOLVED, SOLVED.replace("np.ones_like(t)", "t / n")),
    fact="the fit divides the equations by the sizes instead of the times",
    question="An error of 1 us for 8 bytes, and one of 1 ms for 8 KB: which is larger, as a share of the time?",
)
known.change(
    "through-the-origin",
    (COLUMNS, COLUMNS.replace("[1 / t, n / t]", "[0 / t, n / t]")),
    ("scale = predicted_over_measured.max(axis=0)", "scale = np.maximum(predicted_over_measured.max(axis=0), 1)"),
    fact="the latency is 0: the fitted line goes through the origin",
    question="What does a message of 0 bytes cost?",
)
known.change(
    "smallest-and-largest",
    (
        "n, t = np.array(num_bytes, np.float64), np.array(seconds, np.float64)",
        "n, t = np.array(num_bytes, np.float64), np.array(seconds, np.float64)\n"
        "if n.shape == t.shape and n.size:\n    n, t = (each[[n.argmin(), n.argmax()]] for each in (n, t))",
    ),
    fact="only the smallest and the largest message are used",
    question="You have measured twelve sizes. How many of them change your result?",
)
known.change(
    "swapped",
    ("cls(*map(float, found / scale))", "cls(*map(float, (found / scale)[::-1]))"),
    fact="latency and seconds per byte are swapped",
    question="Which of the two numbers does your model multiply by the bytes?",
)
known.change(
    "elements",
    (
        "return self.latency + self.seconds_per_byte * num_bytes",
        "return self.latency + self.seconds_per_byte * num_bytes / 4",
    ),
    fact="a message is counted in float32 elements instead of bytes",
    question="How many bytes are 1,000 bytes?",
)
known.change(
    "one-latency",
    (STEPS, "return (ranks - 1) * (self.latency / max(1, ranks - 1) + self.seconds_per_byte * num_bytes / ranks)"),
    fact="a reduce-scatter pays the latency once instead of once in each step",
    question="How many messages does a rank wait for, one after another?",
)
known.change(
    "as-many-steps-as-ranks",
    (STEPS, STEPS.replace("(ranks - 1) *", "ranks *")),
    fact="a reduce-scatter has as many steps as ranks",
    question="With one rank, how many messages are there?",
)
known.change(
    "complete-arrays",
    (STEPS, WHOLE),
    fact="each step of a reduce-scatter sends the complete array",
    question="What part of the array does a rank send in each step?",
)
known.change(
    "chunks-for-the-others",
    (STEPS, "return (ranks - 1) * self.message(num_bytes / max(1, ranks - 1))"),
    fact="a chunk is num_bytes / (ranks - 1)",
    question="Into how many chunks is the array divided, with the rank's own?",
)
known.change(
    "gathers-complete-arrays",
    (f"{GATHER}return self.reduce_scatter(num_bytes, ranks)", f"{GATHER}{WHOLE}"),
    fact="num_bytes of an all-gather is the size of each rank's part",
    question="Is num_bytes what a rank puts into an all-gather, or what it gets out?",
)
known.change(
    "half-of-it",
    (
        "self.reduce_scatter(num_bytes, ranks) + self.all_gather(num_bytes, ranks)",
        "self.reduce_scatter(num_bytes, ranks)",
    ),
    fact="a ring all-reduce takes as long as a reduce-scatter alone",
    question="After the reduce-scatter, which part of the sum does each rank have?",
)
known.change(
    "one-shot-sends-chunks",
    (WHOLE, STEPS),
    fact="each step of one-shot sends a chunk instead of a complete array",
    question="Every rank adds up the arrays itself. How much of each other rank's array does it need?",
)
known.change(
    "one-shot-in-one-step",
    (WHOLE, "return self.message(num_bytes) if ranks > 1 else 0.0"),
    fact="one-shot takes the time of one message, however many ranks there are",
    question="On a ring, how does the array of the rank opposite reach you?",
)
known.change(
    "central-at-once",
    ("return 2 * (ranks - 1) * self.message(num_bytes)", "return 2 * self.message(num_bytes) if ranks > 1 else 0.0"),
    fact="rank 0 receives from all others at the same time",
    question="Seven arrays arrive at rank 0. How many can it receive at a time?",
)
known.change(
    "central-sends-at-once",
    (
        "return 2 * (ranks - 1) * self.message(num_bytes)",
        "return (ranks - 1 + (ranks > 1)) * self.message(num_bytes)",
    ),
    fact="rank 0 sends the sum to all others at the same time",
    question="Rank 0 sends the sum to seven ranks. How many messages can it send at a time?",
)
known.change(
    "central-one-way",
    ("return 2 * (ranks - 1) * self.message(num_bytes)", WHOLE),
    fact="rank 0 does not send the sum back",
    question="Which ranks have the sum after rank 0 has computed it?",
)
known.change(
    "crossover-without-ranks",
    (CROSSOVER, "return math.inf if ranks <= 2 else self.latency / self.seconds_per_byte"),
    fact="the crossover is latency / seconds_per_byte for any number of ranks",
    question="Set the two times equal, for 3 ranks and for 8. Do you get the same size?",
)
known.change(
    "divides-by-zero",
    (CROSSOVER, "return self.latency / self.seconds_per_byte * ranks / (ranks - 2)"),
    fact="crossover divides by zero for two ranks",
    question="Two ranks: for which sizes is one-shot slower than the ring?",
)
known.change(
    "one-size-is-enough",
    ("n.shape != t.shape or len(set(num_bytes)) < 2", "n.shape != t.shape or n.size < 2"),
    fact="two messages of one size are enough for a fit",
    question="Both points have the same size. How many lines fit them equally well?",
)
known.change(
    "latency-clipped",
    ("return cls(*map(float, found / scale))", "return cls(*(max(0.0, float(each)) for each in found / scale))"),
    fact="a negative number of the fit becomes 0",
    question="The fitted latency is -2 us. Has the line with latency 0 and the same slope a smaller error?",
)


@known.accepted("polyfit with weights")
class Weighted(CostModel):
    @classmethod
    def fit(cls, num_bytes, seconds):
        n, t = np.array(num_bytes, float), np.array(seconds, float)
        if len(n) != len(t) or np.unique(n).size < 2 or t.min() <= 0:
            raise ValueError("not enough")
        slope, intercept = np.polyfit(n, t, 1, w=1 / t)
        return cls(float(intercept), float(slope))

    def ring_all_reduce(self, num_bytes, ranks):
        return 2 * (ranks - 1) * (self.latency + self.seconds_per_byte * num_bytes / ranks)

    def crossover(self, ranks):
        return self.latency * ranks / (self.seconds_per_byte * (ranks - 2)) if ranks > 2 else math.inf

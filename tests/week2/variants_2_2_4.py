"""Reference variants of task 2.2.4, the roofline."""

from operator import attrgetter

import mlx.core as mx
from tiny_llm_solution.measure.roofline import Utilization

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.2.4")

MACHINES = [(32.0, 128.0), (128.0, 32.0), (4.0, 4.0)]
WORK = [(1000, 10), (10, 1000), (512, 128), (128, 512), (8, 8), (0, 24), (24, 0)]


def over_all(program, ask):
    return mx.array([ask(program(*limits), *work) for limits in MACHINES for work in WORK])


def crossings(program, fixed, each, mosts=(0, 1, 4, 10, 11, 20), flops=0):
    roof = program(2.0, 8.0)
    found = [roof.crossover(lambda n: (flops + 8 * n, fixed + each * n), most) for most in mosts]
    return mx.array([-1.0 if n is None else float(n) for n in found])


known.probe_table(
    ridge=lambda program: mx.array([program(*limits).ridge() for limits in MACHINES]),
    least=lambda program: over_all(program, lambda roof, flops, size: roof.least_seconds(flops, size)),
    limit=lambda program: over_all(program, lambda roof, flops, size: len(roof.limit(flops, size))),
    crossover=lambda program: (
        crossings(program, 19, 0),
        crossings(program, 39, 1),
        crossings(program, 7, 0),
        crossings(program, 0, 1),
    ),
    always_arithmetic=lambda program: crossings(program, 1, 1, flops=40),
    # At n = 10 memory and compute times are equal.
    crossover_at_a_tie=lambda program: crossings(program, 20, 0),
    never_crosses=lambda program: crossings(program, 40, 10),
    utilization=lambda program: over_all(
        program, lambda roof, flops, size: attrgetter("bandwidth", "compute")(roof.utilization(flops, size, 160.0))
    ),
    refuses=lambda program: refusals(
        lambda limits: program(*limits), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, -1.0)]
    ),
)

known.not_timed("only a few divisions")

known.change(
    "times-added",
    ("max(size / self.bandwidth, flops / self.peak_flops)", "size / self.bandwidth + flops / self.peak_flops"),
    fact="the minimum time is the sum of both times",
    question="Must all bytes arrive before computing can start?",
)
known.change(
    "shorter-time",
    ("max(size / self.bandwidth, flops / self.peak_flops)", "min(size / self.bandwidth, flops / self.peak_flops)"),
    fact="the minimum time is the shorter of both times",
    question="Moving takes 3 s and computing 2 s. Can everything be done after 2 s?",
)
known.change(
    "moving-alone",
    ("max(size / self.bandwidth, flops / self.peak_flops)", "size / self.bandwidth"),
    fact="the minimum time is always the memory time",
    question="A step reads few bytes and computes for a long time. How long does it take?",
)
known.change(
    "ridge-upside-down",
    ("return self.peak_flops / self.bandwidth", "return self.bandwidth / self.peak_flops"),
    fact="the ridge point is bytes per FLOP instead of FLOPs per byte",
    question="Which unit does the ridge point have?",
)
known.change(
    "limit-upside-down",
    ("flops / self.peak_flops > size", "flops / self.peak_flops < size"),
    fact="the limit is whichever of the two takes less time",
    question="Moving takes 3 s and computing 2 s. Which of them would you speed up?",
)
known.change(
    "tie-for-arithmetic",
    ("flops / self.peak_flops > size", "flops / self.peak_flops >= size"),
    fact="the work is compute-bound even when both times are equal",
    question="What does the docstring say about equal times?",
)
known.change(
    "limit-by-amount",
    ("flops / self.peak_flops > size / self.bandwidth", "flops > size"),
    fact="the work is compute-bound whenever it has more FLOPs than bytes",
    question="Where does your answer depend on the machine?",
)
known.change(
    "reached-crossed",
    ("return Utilization(", "return (lambda bandwidth, compute: Utilization(compute, bandwidth))("),
    fact="the achieved fractions of bandwidth and peak FLOP/s are swapped",
    question="In what order does Utilization take its two fields?",
)
known.change(
    "reached-not-a-part",
    ("(size / seconds / self.bandwidth, flops / seconds / self.peak_flops)", "(size / seconds, flops / seconds)"),
    fact="the achieved bytes and FLOPs per second are returned instead of fractions of the peak",
    question="What is the value for a machine that runs at its peak?",
)
known.change(
    "reached-of-the-least",
    ("return Utilization", "seconds = max(size / self.bandwidth, flops / self.peak_flops)\nreturn Utilization"),
    fact="the achieved fractions are computed from the minimum time instead of the measured seconds",
    question="Does your answer change if the work takes twice as long?",
)
known.change(
    "last-left-out",
    ("range(1, most + 1)", "range(1, most)"),
    fact="crossover does not test n = most",
    question="Is n = most allowed?",
)
known.change(
    "one-at-least",
    ("range(1, most + 1)", "range(1, max(most, 1) + 1)"),
    fact="crossover tests n = 1 even when most is 0",
    question="Which sizes are there from 1 to 0?",
)
known.change(
    "powers-of-two",
    ("for n in range(1, most + 1) if", "for n in [2**k for k in range(most.bit_length())] if"),
    fact="crossover tests only powers of two",
    question="The work becomes compute-bound at n = 5. Do you ever test that n?",
)
known.change(
    "last-before",
    ("next((n for n", "next((n - 1 for n"),
    fact="crossover returns the largest n that is still memory-bound",
    question="What is the limit at the n that you return?",
)
known.change(
    "first-of-memory",
    ('self.limit(*work(n)) == "arithmetic"', 'self.limit(*work(n)) == "memory"'),
    fact="crossover returns the smallest memory-bound n",
    question="What is the limit at the n that you return?",
)
known.change(
    "most-for-never",
    ('== "arithmetic"), None)', '== "arithmetic"), most)'),
    fact="crossover returns most when the work never becomes compute-bound",
    question="How does a caller learn that the work never became compute-bound?",
)
known.change(
    "ridge-for-turn",
    (
        'return next((n for n in range(1, most + 1) if self.limit(*work(n)) == "arithmetic"), None)',
        "return int(self.peak_flops // self.bandwidth)",
    ),
    fact="crossover returns the ridge point, whatever the work is",
    question="Does work of size n always have n FLOPs per byte?",
)
for name, condition, fact in (
    ("no-limit-refused", "False", "a bandwidth or peak FLOP/s that is not above 0 is accepted"),
    ("only-bandwidth-refused", "not bandwidth > 0", "a peak FLOP/s that is not above 0 is accepted"),
    ("zero-accepted", "min(bandwidth, peak_flops) < 0", "a bandwidth or peak FLOP/s of 0 is accepted"),
    ("both-or-none-refused", "max(bandwidth, peak_flops) <= 0", "an argument is rejected only if neither is above 0"),
):
    known.change(
        name,
        ("if not (bandwidth > 0 and peak_flops > 0):", f"if {condition}:"),
        fact=fact,
        question="What does your code do with a bandwidth of 0, and with a peak of -1 FLOP/s?",
    )
known.change(
    "from-zero",
    ("range(1, most + 1)", "range(most + 1)"),
    fact="crossover also tests n = 0",
    question="What is the smallest n that crossover may return?",
)


@known.accepted("by-intensity")
class ByIntensity:
    """Compute with FLOPs per byte, as the roofline is drawn; crossover bisects."""

    def __init__(self, bandwidth, peak_flops):
        if min(bandwidth, peak_flops) <= 0:
            raise ValueError("no machine")
        self.speeds = (bandwidth, peak_flops)

    def ridge(self):
        bandwidth, peak_flops = self.speeds
        return peak_flops / bandwidth

    def times(self, flops, size):
        return size / self.speeds[0], flops / self.speeds[1]

    def least_seconds(self, flops, size):
        return sorted(self.times(flops, size))[-1]

    def limit(self, flops, size):
        moving, computing = self.times(flops, size)
        return "memory" if moving >= computing else "arithmetic"

    def utilization(self, flops, size, seconds):
        return Utilization(*(time / seconds for time in self.times(flops, size)))

    def crossover(self, work, most):
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.limit(*work(middle)) == "arithmetic":
                high = middle
            else:
                low = middle
        return high if high <= most else None

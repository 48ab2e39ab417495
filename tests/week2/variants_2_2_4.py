"""Known programs of task 2.2.4, the roofline."""

from operator import attrgetter

import mlx.core as mx
from tiny_llm_solution.measure.roofline import Reached

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.2.4")

MACHINES = [(32.0, 128.0), (128.0, 32.0), (4.0, 4.0)]
WORK = [(1000, 10), (10, 1000), (512, 128), (128, 512), (8, 8), (0, 24), (24, 0)]


def over_all(program, ask):
    return mx.array([ask(program(*limits), *work) for limits in MACHINES for work in WORK])


def turns(program, fixed, each, mosts=(0, 1, 4, 10, 11, 20)):
    roof = program(2.0, 8.0)
    found = [roof.turn(lambda n: (8 * n, fixed + each * n), most) for most in mosts]
    return mx.array([-1.0 if n is None else float(n) for n in found])


known.probe_table(
    ridge=lambda program: mx.array([program(*limits).ridge() for limits in MACHINES]),
    least=lambda program: over_all(program, lambda roof, flops, size: roof.least_seconds(flops, size)),
    limit=lambda program: over_all(program, lambda roof, flops, size: len(roof.limit(flops, size))),
    turn=lambda program: (turns(program, 19, 0), turns(program, 39, 1), turns(program, 7, 0), turns(program, 0, 1)),
    # At n = 10 moving and computing take equally long.
    turn_at_a_tie=lambda program: turns(program, 20, 0),
    never_turns=lambda program: turns(program, 40, 10),
    reached=lambda program: over_all(
        program, lambda roof, flops, size: attrgetter("bandwidth", "rate")(roof.reached(flops, size, 160.0))
    ),
    refuses=lambda program: refusals(
        lambda limits: program(*limits), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]
    ),
)


known.not_timed("a few numbers are divided")


known.change(
    "times-added",
    ("max(size / self.bandwidth, flops / self.rate)", "size / self.bandwidth + flops / self.rate"),
    fact="the least time is the sum of both times",
    question="Must all bytes be there before the first of them is computed with?",
)
known.change(
    "shorter-time",
    ("max(size / self.bandwidth, flops / self.rate)", "min(size / self.bandwidth, flops / self.rate)"),
    fact="the least time is the shorter of both times",
    question="Moving takes 3 s and computing 2 s. Can all be done after 2 s?",
)
known.change(
    "moving-alone",
    ("max(size / self.bandwidth, flops / self.rate)", "size / self.bandwidth"),
    fact="the least time is that of moving the bytes",
    question="A step reads few bytes and computes long with them. What does it take?",
)
known.change(
    "limits-crossed",
    ("max(size / self.bandwidth, flops / self.rate)", "max(size / self.rate, flops / self.bandwidth)"),
    fact="bytes are divided by the rate, and FLOPs by the bandwidth",
    question="What is the unit of FLOPs divided by bytes a second?",
)
known.change(
    "ridge-upside-down",
    ("return self.rate / self.bandwidth", "return self.bandwidth / self.rate"),
    fact="the ridge is given in bytes for each FLOP",
    question="Of what are there so many for each byte?",
)
known.change(
    "limit-upside-down",
    ("flops / self.rate > size", "flops / self.rate < size"),
    fact="the limit is what takes less time",
    question="Moving takes 3 s and computing 2 s. Which of them would you make faster?",
)
known.change(
    "tie-for-arithmetic",
    ("flops / self.rate > size", "flops / self.rate >= size"),
    fact="arithmetic is the limit also where both take equally long",
    question="What does the docstring say, if computing does not take longer?",
)
known.change(
    "limit-by-amount",
    ("flops / self.rate > size / self.bandwidth", "flops > size"),
    fact="the limit is arithmetic where there are more FLOPs than bytes",
    question="Which machine did you ask?",
)
known.change(
    "reached-crossed",
    ("return Reached(", "return (lambda bandwidth, rate: Reached(rate, bandwidth))("),
    fact="the part of the rate is given as that of the bandwidth, and the other way round",
    question="In what order does Reached take its two parts?",
)
known.change(
    "reached-not-a-part",
    ("(size / seconds / self.bandwidth, flops / seconds / self.rate)", "(size / seconds, flops / seconds)"),
    fact="what was reached is given in bytes and FLOPs a second, and not as a part of the limits",
    question="What is 1, if a machine does all that it can?",
)
known.change(
    "reached-of-the-least",
    ("return Reached", "seconds = max(size / self.bandwidth, flops / self.rate)\nreturn Reached"),
    fact="what was reached is said of the least time, and not of the seconds that it took",
    question="Does your answer change if the work takes twice as long?",
)
known.change(
    "reached-upside-down",
    ("return Reached(", "return (lambda *shares: Reached(*(x and 1 / x for x in shares)))("),
    fact="it is given how many times more the machine could have done",
    question="What is reached with half the bandwidth: 0.5 or 2?",
)
known.change(
    "last-left-out",
    ("range(1, most + 1)", "range(1, most)"),
    fact="turn does not look at n = most",
    question="Is most one of the sizes that n may have?",
)
known.change(
    "one-at-least",
    ("range(1, most + 1)", "range(1, max(most, 1) + 1)"),
    fact="turn looks at n = 1 even where most is 0",
    question="Which sizes are there from 1 to 0?",
)
known.change(
    "powers-of-two",
    ("for n in range(1, most + 1) if", "for n in [2**k for k in range(most.bit_length())] if"),
    fact="turn looks at powers of two alone",
    question="Work turns at n = 5. Do you ever ask there?",
)
known.change(
    "last-before",
    ("next((n for n", "next((n - 1 for n"),
    fact="turn gives the largest n at which memory is still the limit",
    question="Which limit is there at the n that you give?",
)
known.change(
    "first-of-memory",
    ('self.limit(*work(n)) == "arithmetic"', 'self.limit(*work(n)) == "memory"'),
    fact="turn gives the smallest n at which memory is the limit",
    question="Which limit is there at the n that you give?",
)
known.change(
    "most-for-never",
    ('== "arithmetic"), None)', '== "arithmetic"), most)'),
    fact="turn gives most where it is never arithmetic",
    question="How does whoever asks learn that it never turned?",
)
known.change(
    "ridge-for-turn",
    (
        'return next((n for n in range(1, most + 1) if self.limit(*work(n)) == "arithmetic"), None)',
        "return int(self.rate // self.bandwidth)",
    ),
    fact="turn gives the ridge, whatever the work is",
    question="Has work of size n always n FLOPs for each byte?",
)
known.change(
    "no-limit-refused",
    ("if not (bandwidth > 0 and rate > 0):", "if False:"),
    fact="a machine is accepted whose limits are not above 0",
    question="How long does it take to move a byte with a bandwidth of 0?",
)
known.change(
    "only-bandwidth-refused",
    ("if not (bandwidth > 0 and rate > 0):", "if not bandwidth > 0:"),
    fact="a rate that is not above 0 is accepted",
    question="How long does a multiplication take with a rate of 0?",
)
known.change(
    "zero-accepted",
    ("if not (bandwidth > 0 and rate > 0):", "if not (bandwidth >= 0 and rate >= 0):"),
    fact="limits of 0 are accepted",
    question="How long does it take to move a byte with a bandwidth of 0?",
)


@known.accepted("by-intensity")
class ByIntensity:
    """In FLOPs for each byte, as the roofline is drawn; turn halves what is left."""

    def __init__(self, bandwidth, rate):
        if min(bandwidth, rate) <= 0:
            raise ValueError("no machine")
        self.speeds = (bandwidth, rate)

    def ridge(self):
        bandwidth, rate = self.speeds
        return rate / bandwidth

    def times(self, flops, size):
        return size / self.speeds[0], flops / self.speeds[1]

    def least_seconds(self, flops, size):
        return sorted(self.times(flops, size))[-1]

    def limit(self, flops, size):
        moving, computing = self.times(flops, size)
        return "memory" if moving >= computing else "arithmetic"

    def reached(self, flops, size, seconds):
        return Reached(*(time / seconds for time in self.times(flops, size)))

    def turn(self, work, most):
        low, high = 0, most + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.limit(*work(middle)) == "arithmetic":
                high = middle
            else:
                low = middle
        return high if high <= most else None

"""Known programs of task 6.3.3, experts over ranks."""

import mlx.core as mx
import numpy as np
from tests.week6 import stages
from tiny_llm_solution.basics import silu
from tiny_llm_solution.experts.router import route

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.3.3")


def weights_of(seed, experts, size=4, width=3):
    draw = normals(seed)
    return draw(experts, size), (draw(experts, width, size), draw(experts, width, size), draw(experts, size, width))


def run(program, seed, ranks, experts, top_k=2, tokens=2):
    """Return the outputs of ranks with 2, 3, 4, .. tokens."""
    gate, stacked = weights_of(seed, experts)
    own = [normals(seed + 1 + rank)(tokens + rank, 4) for rank in range(ranks)]
    return tuple(stages.experts_over_ranks(program, own, gate, stacked, top_k, True)[0])


def to_one(program, ranks, chosen):
    """Return the outputs where all tokens go to one expert."""
    gate, stacked = weights_of(2, 4)
    gate = mx.where(mx.arange(4)[:, None] == chosen, 3.0, -mx.abs(gate))
    own = [mx.abs(normals(rank)(2, 4)) + 0.1 for rank in range(ranks)]
    return tuple(stages.experts_over_ranks(program, own, gate, stacked, 1, True)[0])


def exchanged(program, sizes):
    """Return what `all_to_all` returns, and the bytes and the empty messages that each rank has sent."""
    ranks = len(sizes)
    block, gate = mx.zeros((1, 2, 2)), mx.zeros((ranks, 2))

    def rank_of(group):
        made = program(gate, block, block, block, 1, True, group)
        parts = [normals(10 * group.rank + to)(n, 2) for to, n in enumerate(sizes[group.rank])]
        found = made.all_to_all(parts, sizes)
        mx.eval(found)
        return found

    found, groups = run_ranks(rank_of, ranks)
    empty = [sum(call.name == "send" and 0 in call.shape for call in group.calls) for group in groups]
    return (*(x for own in found for x in own), mx.array([*map(stages.sent_bytes, groups), *empty]))


def refused(program):
    """Return which arguments are refused."""

    def make(case):
        experts, ranks, *own = case
        ws = [mx.zeros((n, 3, 3)) for n in own]
        return run_ranks(lambda group: program(mx.zeros((experts, 3)), *ws, 1, True, group), ranks)

    return refusals(make, [(2, 3, 1, 1, 1), (4, 2, 4, 2, 2), (4, 2, 2, 4, 2), (4, 2, 2, 2, 4)])


known.probe_table(
    one=lambda program: run(program, 1, 1, 3),
    two=lambda program: run(program, 11, 2, 4),  # each rank has as many rows for the first two experts as for its own
    three=lambda program: run(program, 3, 3, 5),
    four=lambda program: run(program, 4, 4, 6, 1),
    to_first=lambda program: to_one(program, 2, 0),
    to_last=lambda program: to_one(program, 2, 3),
    alone=lambda program: exchanged(program, [[2]]),
    pair=lambda program: exchanged(program, [[1, 2], [3, 1]]),
    triple=lambda program: exchanged(program, [[1, 2, 3], [4, 0, 1], [2, 2, 1]]),
    even=lambda program: exchanged(program, [[1, 1, 1]] * 3),
    sparse=lambda program: exchanged(program, [[0, 0, 2], [0, 1, 0], [0, 1, 0]]),
    nothing=lambda program: exchanged(program, [[0, 0]] * 2),
    refused=refused,
)


@known.sized("1 rank, 64 tokens, 8 experts of 64 x 48")
def sized(program):
    gate, stacked = weights_of(1, 8, 64, 48)
    x = normals(2)(64, 64)
    return lambda: stages.experts_over_ranks(program, [x], gate, stacked, 2, True)[0][0]


SHIFT = "for receives in (self.group.rank % 2 == 1, self.group.rank % 2 == 0):"
known.change(
    "all-send-first",
    (SHIFT, "for receives in (False, True):"),
    fact="all ranks send before they receive",
    question="Every rank is blocked in send until its right neighbor receives. Who receives first?",
)
known.change(
    "all-receive-first",
    (SHIFT, "for receives in (True, False):"),
    fact="all ranks receive before they send",
    question="Every rank is blocked in receive until its left neighbor sends. Who sends first?",
)
known.change(
    "parts-by-rank",
    ("[parts[(rank + d) % ranks] for d in range(1, ranks)]", "[parts[r] for r in range(ranks) if r != rank]"),
    fact="the parts travel in the order of the ranks instead of the distance",
    question="Rank 1 of 4 sends parts for 2, 3 and 0. Which of them does the right neighbor cut off?",
)
known.change(
    "source-on-the-right",
    ("source = (rank - step) % ranks", "source = (rank + step) % ranks"),
    fact="the rows that arrive are taken for those of the rank `step` places to the right",
    question="Rows move to the right. From which rank are those that arrive in the second step?",
)
for name, lengths in (("in-the-order-of-arrival", "[len(part) for part in arrived]"), ("arrival-cut-by-rank", "mine")):
    known.change(
        name,
        ("return found", "return [found[(rank - d) % ranks] for d in range(ranks)]"),
        ("_cut(outputs, mine)", f"_cut(outputs, {lengths})"),
        fact="`all_to_all` returns the parts in the order of arrival instead of by rank",
        question="Rank 1 of 3 keeps its own part and then receives one from rank 0. Which does its caller find first?",
    )
known.change(
    "sent-while-empty",
    ("if receives and shape[0]:", "if receives:"),
    ("elif not receives and len(x):", "else:"),
    fact="a message is sent even if no row is traveling",
    question="Both neighbors know the number of rows. What does an empty message tell them?",
)
known.change(
    "sorted-by-rank",
    ("np.repeat(np.tile(np.arange(experts), ranks), counts.flatten())",
     "np.repeat(np.arange(experts), counts.sum(axis=0))"),
    fact="what arrives is taken for sorted by expert, but it is sorted by rank first",
    question="Ranks 0 and 1 each send a row for expert 4 and one for expert 5. In which order do the four arrive?",
)  # fmt: skip
known.change(
    "first-experts-of-all",
    ("counts[:, list(self.owned[self.group.rank])]", "counts[:, : len(self.w_gate)]"),
    fact="every rank takes the counts of the first experts for those of its own",
    question="Rank 1 holds experts 3 and 4. Which columns of the counts are about its weights?",
)
known.change(
    "outputs-not-put-back",
    ("return groups.scatter(groups.linear(inner, self.w_down)).squeeze(1)",
     "return groups.linear(inner, self.w_down)"),
    fact="the outputs travel back in the order of the experts instead of the order in which the rows came",
    question="The rows came from rank 0 first. In which order are your outputs when you cut them by rank?",
)  # fmt: skip
known.change(
    "numbers-not-transposed",
    ("list(zip(*rows, strict=True))", "rows"),
    fact="the way back uses the numbers of rows of the way there",
    question="Rank 0 has sent five rows to rank 1. How many does it get back, and which entry of the table says so?",
)
known.change(
    "nothing-arrives",
    ("if not len(rows):", "if False:"),
    fact="a rank to which no row comes computes with an empty list of products",
    question="No token has chosen an expert of this rank. What do you concatenate?",
)
known.change(
    "weights-left-out",
    ("* weights[..., None]", ""),
    fact="the experts' outputs are added up without the router's weights",
    question="Where are the weights while the rows travel, and where are they needed?",
)
known.change(
    "experts-not-checked",
    ("if len(w) != needed:", "if False:"),
    fact="a rank that is given all experts instead of its own is accepted",
    question="What does your block compute if every rank is given all of the weights?",
)


@known.wrong(
    "all-rows-to-all",
    fact="every rank sends its rows to all ranks, which keep what is for them",
    question="A row goes to one rank. How often does your program send it, and how often is necessary?",
)
class Everything:
    def __init__(self, gate, w_gate, w_up, w_down, top_k, normalize, group):
        experts, ranks = len(gate), group.size
        if ranks > experts:
            raise ValueError(f"{ranks} ranks, {experts} experts")
        self.bounds = [experts * r // ranks for r in range(ranks + 1)]
        needed = self.bounds[group.rank + 1] - self.bounds[group.rank]
        for name, w in (("w_gate", w_gate), ("w_up", w_up), ("w_down", w_down)):
            if w.shape[0] != needed:
                raise ValueError(f"{name}: {w.shape[0]} experts, not {needed}")
        self.gate, self.weights, self.how, self.group = gate, (w_gate, w_up, w_down), (top_k, normalize), group

    def send_on(self, x, count):
        """Send rows to the right, and return those of the left neighbor."""
        group, found = self.group, x[:0]
        shape = (count, x.shape[1])
        if group.rank % 2 == 0 and len(x):
            group.send(x, group.right)
        if count:
            found = group.receive(shape, x.dtype, group.left)
        if group.rank % 2 and len(x):
            group.send(x, group.right)
        return found

    def all_to_all(self, parts, rows):
        rank, ranks = self.group.rank, self.group.size
        found, traveling = list(parts), mx.concatenate(list(parts))
        for step in range(1, ranks):
            source = (rank - step) % ranks
            traveling = self.send_on(traveling, sum(rows[source]))
            start = sum(rows[source][:rank])
            found[source] = traveling[start : start + rows[source][rank]]
        return found

    def __call__(self, x):
        rank, ranks = self.group.rank, self.group.size
        indices, weights = route(x, self.gate, *self.how)
        flat = indices.flatten()
        order = mx.argsort(flat)
        counts = mx.sum(flat[:, None] == mx.arange(len(self.gate)), axis=0).astype(mx.int32)
        all_counts = np.array(self.group.all_gather(counts)).reshape(ranks, -1)
        rows = [[int(c[a:b].sum()) for a, b in zip(self.bounds, self.bounds[1:], strict=False)] for c in all_counts]
        ends = np.cumsum(rows[rank])[:-1].tolist()
        sent = x.reshape(-1, x.shape[-1])[order // self.how[0]]
        arrived = self.all_to_all(mx.split(sent, ends), rows)
        outputs = []
        for source, part in enumerate(arrived):
            own = all_counts[source, self.bounds[rank] : self.bounds[rank + 1]].tolist()
            y, start = [part[:0]], 0
            for expert, count in enumerate(own):
                if count:
                    block = part[start : start + count]
                    w_gate, w_up, w_down = (w[expert] for w in self.weights)
                    y.append((silu(block @ w_gate.T) * (block @ w_up.T)) @ w_down.T)
                    start += count
            outputs.append(mx.concatenate(y))
        back = self.all_to_all(outputs, [[rows[s][r] for s in range(ranks)] for r in range(ranks)])
        y = mx.concatenate(back)[mx.argsort(order)].reshape(*indices.shape, -1)
        return mx.sum(y * weights[..., None], axis=-2)


@known.accepted("one hop at a time, expert by expert")
class HopByHop(Everything):
    def all_to_all(self, parts, rows):
        rank, ranks = self.group.rank, self.group.size
        found = list(parts)
        for distance in range(1, ranks):
            x = parts[(rank + distance) % ranks]
            for hop in range(1, distance + 1):
                source = (rank - hop) % ranks
                x = self.send_on(x, rows[source][(source + distance) % ranks])
            found[(rank - distance) % ranks] = x
        return found

"""Known programs of task 4.5.2, tokens sorted by expert."""

import mlx.core as mx
from tests.week4.routing import chosen, products

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.5.2")


def inputs(seed, dtype=mx.float32, leading=(2, 4), top_k=3, experts=5, size=6):
    draw = normals(seed, dtype)
    return draw(*leading, size), draw(experts, 7, size), chosen(seed, leading, top_k, experts)


def through(program, x, w, indices):
    """Return the result, or only its shape if that is wrong: the program may have read memory outside x."""
    groups = program(indices, len(w))
    found = groups.scatter(groups.linear(groups.gather(x), w))
    return found if found.shape == (*indices.shape, w.shape[1]) else mx.array(found.shape)


def to(program, seed, indices, last=1.0):
    """Tokens routed to these of five experts, the last of which has its weights multiplied by a number."""
    x, w, _ = inputs(seed, leading=(len(indices),))
    return through(program, x, w * mx.array([1.0] * 4 + [last])[:, None, None], mx.array(indices))


known.probe_table(
    tokens=lambda program: through(program, *inputs(1)),
    one_each=lambda program: through(program, *inputs(2, leading=(9,), top_k=1)),
    one_token=lambda program: through(program, *inputs(3, leading=())),
    # no token goes to experts 0 and 3
    idle=lambda program: to(program, 4, [[1, 2], [4, 1], [2, 1], [1, 4]]),
    idle_is_nan=lambda program: to(program, 5, [[0, 1], [3, 2], [1, 0]], last=mx.nan),
    # more matrix products than rows?
    idle_products=lambda program: mx.array(products(to(program, 9, [[0], [3]])) > 2, mx.float32),
    # more matrix products than experts with rows?
    row_products=lambda program: mx.array(products(to(program, 11, [[0], [0], [3], [0]])) > 2, mx.float32),
    # one expert per token, already sorted
    as_sorted=lambda program: to(program, 6, [[0], [0], [1], [2], [4]]),
)
known.probe_table(mx.float16, half=lambda program: through(program, *inputs(7, mx.float16)))


@known.probe()
def computed_by(program):
    """Return which expert computes which of two rows: a NaN in its matrix makes the gradient of the row NaN."""
    x, w, _ = inputs(10, leading=(2,))
    groups = program(mx.array([[0], [3]]), 5)
    rows, each = groups.gather(x), [mx.where(mx.arange(5)[:, None, None] == e, mx.nan, w) for e in range(5)]
    return mx.stack([mx.isnan(mx.grad(lambda rows, w=w: mx.sum(groups.linear(rows, w)))(rows)) for w in each])


@known.probe()
def grouped_memory(program):
    """Return whether it allocates less than a quarter of a matrix for each row."""
    draw = normals(8)
    x, w, indices = draw(256, 64), draw(4, 64, 64), chosen(8, (256,), 2, 4)
    mx.eval(x, w, indices)
    return mx.array(peak_bytes(lambda: through(program, x, w, indices)) < 512 * 64 * 64, mx.float32)


@known.sized("4,096 tokens, 2 of 8 experts each, I and O 64, float32")
def sized(program):
    draw = normals(1)
    x, w, indices = draw(4096, 64), draw(8, 64, 64), chosen(1, (4096,), 2, 8)
    return lambda: through(program, x, w, indices)


LOOP = "results, first = [], 0"
WHICH = "which = mx.array([e for e, count in enumerate(self.counts) for _ in range(count)])\n"
known.change(
    "put-back-by-order",
    ("rows[self.places]", "rows[self.order]"),
    fact="the rows are unsorted with the sorting permutation instead of its inverse",
    question="Row 0 of the sorted rows came from index 4. Which sorted row goes to index 4? And to index 0?",
)
known.change(
    "not-put-back",
    ("rows[self.places]", "rows"),
    fact="the result stays sorted by expert, so tokens get each other's results",
    question="If all rows are sorted by expert, which token is the first row?",
)
known.change(
    "gathered-by-the-inverse",
    ("self.order // self.shape[-1]", "self.places // self.shape[-1]"),
    fact="the rows are gathered with the inverse of the sorting permutation",
    question="The first sorted row is pair 4. Which of order and places has 4 as its first element?",
)
known.change(
    "choices-before-tokens",
    ("self.order // self.shape[-1]", "self.order % len(tokens)"),
    fact="row p is read as token p % T, as if all first choices preceded all second ones",
    question="indices is 3 x 2. Flattened, which two numbers are token 0's?",
)
known.change(
    "tokens-not-flattened",
    ("tokens = x.reshape(-1, x.shape[-1])", "tokens = x"),
    fact="gather takes each entry of x's first axis for one token, even if x has more leading axes",
    question="x is 2 x 4 x 6. How many tokens has it, and what is x[1]?",
)
known.change(
    "idle-experts-left-out",
    ("w[expert]", "w[len(results)]"),
    fact="experts without rows get no group, so later rows use the wrong matrix",
    question="No token goes to expert 0. By whose matrix are the first rows multiplied?",
)
known.change(
    "idle-experts-multiply",
    ("if count:", "if True:"),
    fact="an expert without rows multiplies an empty slice, so there is one product per expert",
    question="One of five experts has rows. How many products does your code make?",
)
known.change(
    "a-product-for-each-row",
    (
        "results.append(linear(rows[first : first + count], w[expert]))",
        "results += [linear(rows[i : i + 1], w[expert]) for i in range(first, first + count)]",
    ),
    fact="each row has a product of its own, instead of all rows of an expert together",
    question="Six rows go to expert 2. How many products with its matrix does your code make?",
)
known.change(
    "begins-after-one-group",
    ("first += count", "first = count"),
    fact="a group starts at the size of the one before it instead of at the sum of all before it",
    question="Three experts have 2, 3 and 1 rows. At which row does the third one start?",
)
known.change(
    "first-choice-for-all",
    ("pairs = indices.flatten()", "pairs = mx.broadcast_to(indices[..., :1], indices.shape).flatten()"),
    fact="all k rows of a token go to its first expert",
    question="A token goes to experts 2 and 0. How many rows does each get from it?",
)
known.change(
    "matrix-for-each-row",
    (LOOP, WHICH + "return (w[which] @ rows[..., None]).squeeze(-1)\n" + LOOP),
    fact="each row gets its own copy of its expert's matrix",
    question="How many bytes does w[which] take with 512 rows and 4 experts?",
)
known.change(
    "all-experts-compute-all-rows",
    (LOOP, WHICH + "return sum((which[:, None] == e) * linear(rows, w[e]) for e in range(len(w)))\n" + LOOP),
    fact="every expert computes all rows, and the unwanted ones are multiplied by zero",
    question="What is 0 times NaN? And how many of the products are needed?",
)
known.change(
    "all-experts-compute-and-one-is-selected",
    (LOOP, WHICH + "return sum(mx.where(which[:, None] == e, linear(rows, w[e]), 0) for e in range(len(w)))\n" + LOOP),
    fact="every expert computes all rows, and each row selects the result of its own",
    question="Two of five experts have rows. How many matrix products do you need, and how many does your code make?",
)
known.change(
    "float32-results",
    ("w[expert])", "w[expert]).astype(mx.float32)"),
    fact="the results are float32 although rows and weights are not",
    question="What should be the dtype for rows of float16?",
)
known.written("shaped by its own last size", ("reshape(*self.shape, -1)", "reshape(*self.shape, rows.shape[-1])"))


@known.accepted("found by comparing")
class Compared:
    def __init__(self, indices, num_experts):
        flat = indices.flatten().tolist()
        if any(not 0 <= e < num_experts for e in flat):
            raise ValueError(f"an index is not one of the {num_experts} experts")
        self.shape, k = indices.shape, indices.shape[-1]
        self.rows = [[p for p, e in enumerate(flat) if e == each] for each in range(num_experts)]
        self.tokens = mx.array([p // k for mine in self.rows for p in mine])
        self.from_where = mx.array([p for mine in self.rows for p in mine])

    def gather(self, x):
        return x.reshape(-1, x.shape[-1])[self.tokens]

    def linear(self, rows, w):
        ends = [0]
        for mine in self.rows:
            ends.append(ends[-1] + len(mine))
        busy = [e for e, mine in enumerate(self.rows) if mine]
        return mx.concatenate([rows[ends[e] : ends[e + 1]] @ w[e].T for e in busy])

    def scatter(self, rows):
        out = mx.zeros(rows.shape, rows.dtype)
        out[self.from_where] = rows
        return out.reshape(*self.shape, rows.shape[-1])

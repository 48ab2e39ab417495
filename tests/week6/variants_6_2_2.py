"""Known programs of task 6.2.2, row-parallel and column-parallel products."""

import mlx.core as mx
from tiny_llm_solution.quantized.parts import Quantized
from tiny_llm_solution.qwen3_cached.parts import DENSE

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.ranks import run_ranks
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.2.2")


def product(program, seed, name, bias=False, size=2, times=1):
    """Return the products of all ranks, and how many calls each made to its group."""
    x, w, b = drawn(seed, (3, 24), (12, 24), (12,))
    by_rows = name.rpartition(".")[2] in ("o_proj", "down_proj")

    def run(group):
        def own(v, axis):
            return mx.split(v, size, axis)[group.rank]

        weights = {f"{name}.weight": own(w, 1 if by_rows else 0)}
        if bias:
            weights[f"{name}.bias"] = b if by_rows else own(b, 0)
        project = program(group, DENSE).projection(weights, name, bias)
        return [project(own(x, -1) if by_rows else x) for _ in range(times)][-1]

    results, groups = run_ranks(run, size)
    return mx.stack(results), mx.array([len(group.calls) for group in groups])


def packed(program, name):
    """Return the product by a packed matrix."""
    x, w = drawn(7, (3, 128), (6, 128))
    by_rows = name == "mlp.down_proj"

    def run(group):
        made = zip(("weight", "scales", "biases"), mx.quantize(w, 32, 8), strict=True)
        own = (lambda v, axis: mx.split(v, 2, axis)[group.rank]) if by_rows else (lambda v, axis: v)
        weights = {f"{name}.{kind}": own(v, 1) for kind, v in made}
        return program(group, Quantized(32, 8)).projection(weights, name)(own(x, -1))

    return mx.stack(run_ranks(run, 2)[0])


def refused(program, name, missing):
    """Return whether a missing weight raises KeyError when the product is built."""
    weights = {f"{name}.{kind}": mx.ones((2, 2)) for kind in ("weight", "bias") if kind != missing}

    def build(each):
        return run_ranks(lambda group: program(group, DENSE).projection(each, name, True), 2)

    return refusals(build, [weights, {f"{name}.weight": mx.ones((2, 2)), f"{name}.bias": mx.ones(2)}], KeyError)


known.probe_table(
    queries=lambda program: product(program, 1, "self_attn.q_proj"),
    gate=lambda program: product(program, 2, "mlp.gate_proj", size=3),
    head=lambda program: product(program, 3, "lm_head"),
    column_bias=lambda program: product(program, 4, "self_attn.k_proj", bias=True),
    output=lambda program: product(program, 5, "self_attn.o_proj"),
    down=lambda program: product(program, 6, "mlp.down_proj", size=4),
    row_bias=lambda program: product(program, 7, "self_attn.o_proj", bias=True, size=3),
    alone=lambda program: product(program, 8, "mlp.down_proj", bias=True, size=1),
    often=lambda program: product(program, 9, "mlp.down_proj", times=3),
    packed=lambda program: packed(program, "mlp.down_proj"),
    packed_column=lambda program: packed(program, "mlp.up_proj"),
    missing=lambda program: refused(program, "self_attn.o_proj", "weight"),
    missing_bias=lambda program: refused(program, "self_attn.o_proj", "bias"),
)


@known.sized("a product of 64 x 1,024 by 1,024 x 1,024 on 2 ranks")
def sized(program):
    x, w = drawn(1, (64, 1024), (1024, 1024))

    def run(group):
        weights = {"mlp.down_proj.weight": mx.split(w, 2, 1)[group.rank]}
        return program(group, DENSE).projection(weights, "mlp.down_proj")(mx.split(x, 2, -1)[group.rank])

    return lambda: mx.stack(run_ranks(run, 2)[0])


IF = 'if name.rpartition(".")[2] not in ROW_PARALLEL:'
known.change(
    "not-summed",
    ("self.group.all_sum(partial(x))", "partial(x)"),
    fact="the partial products of the ranks are not summed",
    question="Each rank multiplied half of x by half of the columns. Whose half of the sum is missing on rank 0?",
)
known.change(
    "all-products-summed",
    (IF, "if not name:"),
    fact="column-parallel products are summed over the ranks, too",
    question="Output 0 of rank 0 is a feature of head 0. What is output 0 of rank 1? What does their sum mean?",
)
known.change(
    "down-not-summed",
    (IF, 'if not name.endswith("o_proj"):'),
    fact="only o_proj is summed over the ranks, and down_proj is not",
    question="How many row-parallel matrices has a layer?",
)
known.change(
    "output-not-summed",
    (IF, 'if not name.endswith("down_proj"):'),
    fact="only down_proj is summed over the ranks, and o_proj is not",
    question="How many row-parallel matrices has a layer?",
)
known.change(
    "bias-on-every-rank",
    ("self.group.all_sum(partial(x))", "self.group.all_sum(partial(x) if b is None else partial(x) + b)"),
    ("return y if b is None else y + b.astype(y.dtype)", "return y"),
    fact="each rank adds the bias before the sum, so that it counts once per rank",
    question="The bias is 1, and x is 0. What do 3 ranks return?",
)
known.change(
    "bias-of-rank-0-after-the-sum",
    (
        "return y if b is None else y + b.astype(y.dtype)",
        "return y if b is None or self.group.rank else y + b.astype(y.dtype)",
    ),
    fact="only rank 0 adds the bias, although the sum is complete on every rank",
    question="After the sum, which ranks go on with the result?",
)
known.change(
    "bias-missing",
    ("return y if b is None else y + b.astype(y.dtype)", "return y"),
    fact="the bias of a row-parallel layer is not added",
    question="What is the result for x = 0 and a bias of 1?",
)
known.change(
    "column-bias-missing",
    ("return self.inner.projection(weights, name, bias)", "return self.inner.projection(weights, name)"),
    fact="column-parallel products have no bias",
    question="Qwen2.5 has a bias for its queries. Which rank adds that of the rank's own heads?",
)
known.change(
    "averaged",
    ("self.group.all_sum(partial(x))", "self.group.all_sum(partial(x)) / self.group.size"),
    fact="the ranks' partial products are averaged instead of summed",
    question="x @ W.T is a sum over all inputs. What has the number of ranks to do with it?",
)
known.change(
    "largest-part",
    ("self.group.all_sum(partial(x))", "self.group.all_max(partial(x))"),
    fact="the ranks exchange the maximum of their partial products instead of the sum",
    question="Two ranks have 2 and -5 as their parts of one output. What is the output?",
)
known.change(
    "summed-twice",
    ("self.group.all_sum(partial(x))", "self.group.all_sum(self.group.all_sum(partial(x)) / self.group.size)"),
    fact="the sum is exchanged twice, which costs a second all-reduce and changes nothing else",
    question="After one all_sum, which rank lacks something?",
)
known.change(
    "built-in-every-call",
    ("partial = self.inner.projection(weights, name)\n", "\n"),
    ("self.group.all_sum(partial(x))", "self.group.all_sum(self.inner.projection(weights, name)(x))"),
    fact="a row-parallel matrix is built in every call, so that a missing weight is not noticed before",
    question="What does the inner factory do if it quantizes the matrix that it builds?",
)
known.change(
    "always-dense",
    ("partial = self.inner.projection(weights, name)\n", "partial = super().projection(weights, name)\n"),
    fact="row-parallel matrices are built by Dense, whatever the inner factory is",
    question="The weight is packed in 32-bit words. What does Dense multiply by?",
)
known.change(
    "all-dense",
    ("return self.inner.projection(weights, name, bias)", "return super().projection(weights, name, bias)"),
    ("partial = self.inner.projection(weights, name)\n", "partial = super().projection(weights, name)\n"),
    fact="all matrices are built by Dense, whatever the inner factory is",
    question="The class inherits from Dense and stores another factory. Which of the two builds packed matrices?",
)
known.change(
    "columns-gathered",
    (
        "return self.inner.projection(weights, name, bias)",
        "own = self.inner.projection(weights, name, bias)\n"
        "return lambda x: mx.moveaxis(self.group.all_gather(mx.moveaxis(own(x), -1, 0)), 0, -1)",
    ),
    fact="each rank gathers the column-parallel outputs of all ranks",
    question="Rank 0 holds some columns of o_proj. The outputs of which heads do they need?",
)
known.change(
    "missing-bias-ignored",
    ('b = weights[f"{name}.bias"] if bias else None', 'b = weights.get(f"{name}.bias") if bias else None'),
    fact="a missing bias of a row-parallel layer raises no error",
    question="The model has biases, and a file lacks one. When does anyone notice?",
)
known.together("not-summed", "summed-twice", makes="averaged")
known.written("by its end", (IF, "if not name.endswith(ROW_PARALLEL):"))
known.accepted_change(
    "rank 0 adds the bias",
    (
        "partial = self.inner.projection(weights, name)\n",
        "partial = self.inner.projection(weights, name, bias and self.group.rank == 0)\n",
    ),
    ("return y if b is None else y + b.astype(y.dtype)", "return y"),
)
known.accepted_change(
    "summed in float32",
    (
        "self.group.all_sum(partial(x))",
        "self.group.all_sum(partial(x).astype(mx.float32)).astype(x.dtype)",
    ),
)

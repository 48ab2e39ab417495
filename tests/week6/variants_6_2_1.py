"""Known programs of task 6.2.1, the parts of the weights."""

import mlx.core as mx
from tests.week6.sharded import BIASES, SHARED, WIDE
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.tensor_parallel.shards import ROW_PARALLEL, Cut

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("6.2.1")
GROUPED = {**SHARED, "head_dim": 16, "intermediate_size": 192}


def cuts(program, config, rank, size, *tensors):
    """Return the rank's cuts as numbers, -1 for a whole tensor."""
    made = program(ModelConfig.from_dict(config), rank, size)
    found = [made.cut(f"model.layers.0.part.{name}", shape) for name, shape in tensors]
    return mx.array([cut or (-1, -1, -1) for cut in found])


def config_of(program, config, rank, size):
    """Return the numbers of the rank's config."""
    own = program(ModelConfig.from_dict(config), rank, size).config
    return mx.array([own.num_attention_heads, own.num_key_value_heads, own.intermediate_size, own.vocab_size])


def taken(program, config, rank, size, name, shape):
    """Return the rank's part of a counted tensor."""
    w = mx.arange(shape[0] * (shape[1] if len(shape) > 1 else 1)).reshape(shape)
    return program(ModelConfig.from_dict(config), rank, size).take({name: w})[name]


known.probe_table(
    heads=lambda program: cuts(program, WIDE, 1, 2, ("q_proj.weight", (72, 10)), ("k_proj.weight", (24, 10))),
    shared_heads=lambda program: cuts(program, SHARED, 1, 4, ("v_proj.weight", (12, 14))),
    last_shared_head=lambda program: cuts(program, SHARED, 3, 4, ("k_proj.weight", (12, 14))),
    output=lambda program: cuts(program, WIDE, 1, 2, ("o_proj.weight", (10, 72))),
    mlp=lambda program: cuts(program, WIDE, 1, 4, ("gate_proj.weight", (28, 10)), ("up_proj.weight", (28, 10))),
    down=lambda program: cuts(program, WIDE, 1, 4, ("down_proj.weight", (10, 28))),
    biases=lambda program: cuts(program, BIASES, 2, 3, ("q_proj.bias", (24,)), ("k_proj.bias", (12,))),
    row_bias=lambda program: cuts(program, WIDE, 1, 2, ("o_proj.bias", (10,)), ("down_proj.bias", (10,))),
    tokens=lambda program: cuts(program, WIDE, 3, 4, ("lm_head.weight", (31, 10)), ("embed_tokens.weight", (31, 10))),
    norms=lambda program: cuts(program, WIDE, 1, 2, ("q_norm.weight", (6,)), ("k_norm.weight", (6,))),
    words=lambda program: cuts(program, GROUPED, 1, 2, ("down_proj.weight", (14, 24))),
    scales=lambda program: cuts(program, GROUPED, 1, 2, ("down_proj.scales", (14, 6)), ("o_proj.biases", (14, 6))),
    config=lambda program: config_of(program, WIDE, 1, 2),
    shared_config=lambda program: config_of(program, SHARED, 3, 4),
    rows=lambda program: taken(program, WIDE, 1, 2, "model.layers.0.mlp.up_proj.weight", (28, 3)),
    columns=lambda program: taken(program, WIDE, 1, 2, "model.layers.0.mlp.down_proj.weight", (3, 28)),
    part_of_a_group=lambda program: refusals(
        lambda shape: program(ModelConfig.from_dict(GROUPED), 0, 2).cut("mlp.down_proj.scales", shape), [(9, 3), (9, 6)]
    ),
    not_divisible=lambda program: refusals(
        lambda size: program(ModelConfig.from_dict({**WIDE, "intermediate_size": 60}), 0, size), [2, 5, 8]
    ),
    shared_unevenly=lambda program: refusals(
        lambda size: program(ModelConfig.from_dict({**WIDE, "intermediate_size": 60}), 0, size), [3, 4, 6]
    ),
)
known.not_timed("it divides no more than names and numbers")

known.change(
    "shared-heads-in-turn",
    ("first = rank * kv_heads // size", "first = rank % kv_heads if size > kv_heads else rank * of_kv"),
    fact="ranks take the key-value heads in turn when there are fewer heads than ranks",
    question="Ranks 0 and 1 of 4 have the first half of the query heads. Which of two key-value heads do those use?",
)
known.change(
    "all-key-value-heads",
    ("num_key_value_heads=max(1, kv_heads // size)", "num_key_value_heads=kv_heads"),
    ("first = rank * kv_heads // size", "first = 0"),
    fact="every rank holds all key-value heads",
    question="A rank has half of the query heads, and all key-value heads. Which does its first query head meet?",
)
known.change(
    "output-by-rows",
    ("if layer not in ROW_PARALLEL:", 'if layer != "down_proj":'),
    fact="o_proj is cut by rows, its outputs",
    question="A rank's heads give it part of o_proj's inputs. Which of the matrix's numbers multiply those?",
)
known.change(
    "down-by-rows",
    ("if layer not in ROW_PARALLEL:", 'if layer != "o_proj":'),
    fact="down_proj is cut by rows, its outputs",
    question="gate_proj and up_proj gave the rank a part of the MLP's width. Is that down_proj's input or its output?",
)
known.change(
    "row-bias-cut",
    ('if kind == "bias":', 'if kind == "":'),
    fact="the bias of a row-parallel layer is cut, although each rank has all of the layer's outputs",
    question="How many outputs has o_proj on each rank, after its columns are cut?",
)
known.change(
    "biases-whole",
    ('*_, layer, kind = name.split(".")', '*_, layer, kind = name.split(".")\nif len(shape) == 1:\n    return None'),
    fact="the biases of column-parallel matrices are left whole, like the norms",
    question="A rank computes half of q_proj's outputs. How many numbers does it add to them?",
)
known.change(
    "words-counted-as-inputs",
    (
        "Cut(1, own.start * columns // total, own.stop * columns // total)",
        "Cut(1, own.start, own.stop)",
    ),
    fact="columns of packed words, scales and biases are counted as if each held one input",
    question="A row of 192 inputs in 4 bits takes how many 32-bit words? Which of them are the second half?",
)
known.change(
    "group-split",
    ("if own.start * columns % total or own.stop * columns % total:", "if False:"),
    fact="a cut inside a quantization group or a word is rounded down without an error",
    question="Inputs 64 to 127 share one scale. A rank has inputs 0 to 95. Which scales does it need?",
)
known.change(
    "last-tokens-lost",
    (
        "range(config.vocab_size * rank // size, config.vocab_size * (rank + 1) // size)",
        "range(config.vocab_size // size * rank, config.vocab_size // size * (rank + 1))",
    ),
    fact="each rank has V // size rows of the embedding, so the last tokens have no rank",
    question="31 tokens on 4 ranks: how many rows have all ranks together in your program?",
)
known.change(
    "vocabulary-rounded-up",
    (
        "range(config.vocab_size * rank // size, config.vocab_size * (rank + 1) // size)",
        "range(*(min(-(-config.vocab_size // size) * each, config.vocab_size) for each in (rank, rank + 1)))",
    ),
    fact="the vocabulary is cut into parts of V / size tokens, rounded up, so the last ranks have fewer or none",
    question="5 tokens on 4 ranks: with which token does rank 1 start, by the docstring and in your program?",
)
known.change(
    "first-ranks-have-more",
    (
        "range(config.vocab_size * rank // size, config.vocab_size * (rank + 1) // size)",
        "range(*(config.vocab_size // size * each + min(each, config.vocab_size % size) for each in (rank, rank + 1)))",
    ),
    fact="the first V % size ranks hold one token more than the others, as in numpy.array_split",
    question="31 tokens on 4 ranks: with which token does rank 1 start, by the docstring and in your program?",
)
known.change(
    "last-rank-has-the-rest",
    (
        "range(config.vocab_size * rank // size, config.vocab_size * (rank + 1) // size)",
        "range(config.vocab_size // size * rank,"
        " config.vocab_size if rank == size - 1 else config.vocab_size // size * (rank + 1))",
    ),
    fact="each rank holds V // size tokens, and the last rank also the rest",
    question="31 tokens on 4 ranks: how many has rank 3, by the docstring and in your program?",
)
known.change(
    "heads-rounded-down",
    ("if count % size:", "if count < size:"),
    fact="query heads and the MLP's width are rounded down where they do not divide",
    question="12 heads on 5 ranks: how many heads does the group compute?",
)
known.change(
    "key-value-heads-not-checked",
    ("if kv_heads % size and size % kv_heads:", "if kv_heads < 1:"),
    fact="numbers of key-value heads and ranks of which neither divides the other are accepted",
    question="3 ranks share 4 key-value heads, each used by 3 query heads. Which heads does rank 1 need, and how many?",
)
known.change(
    "norms-cut",
    (
        "*_, layer, kind = name.split(",
        '*_, layer, kind = name.replace("q_norm", "q_proj").replace("k_norm", "k_proj").split(',
    ),
    fact="the q and k norms are cut like their projections",
    question="Over how many numbers is a head's query normalized? Does that change with the number of ranks?",
)
known.change(
    "scales-whole",
    ('if kind == "bias":', 'if kind != "weight":'),
    fact="the scales and biases of row-parallel quantized matrices are left whole",
    question="The rank has the second half of the words. Whose scales are the first ones?",
)
known.change(
    "groups'-biases-whole",
    ('if kind == "bias":', 'if kind.startswith("bias"):'),
    fact="the biases of a row-parallel matrix's quantization groups are left whole, like the layer's bias",
    question="One of `bias` and `biases` is added to outputs. What does the other one belong to?",
)
known.written("by the last two pieces", ('*_, layer, kind = name.split(".")', 'layer, kind = name.split(".")[-2:]'))


@known.accepted("by lists")
class ByLists:
    """Each range is computed when it is requested."""

    def __init__(self, config, rank, size):
        import dataclasses

        h, kv, width, v = (
            config.num_attention_heads,
            config.num_key_value_heads,
            config.intermediate_size,
            config.vocab_size,
        )
        bad = [n for n in (h, width) if n % size] + ([kv] if kv % size and size % kv else [])
        if bad:
            raise ValueError(f"{bad[0]} does not divide among {size} ranks")
        self.whole, self.rank, self.size = config, rank, size
        self.kv = 1 if kv < size else kv // size
        self.vocabulary = range(v * rank // size, v * (rank + 1) // size)
        self.config = dataclasses.replace(
            config,
            num_attention_heads=h // size,
            num_key_value_heads=self.kv,
            intermediate_size=width // size,
            vocab_size=len(self.vocabulary),
        )

    def cut(self, name, shape):
        layer, kind = name.split(".")[-2:]
        c, d = self.whole, self.whole.head_dim
        if layer in ("embed_tokens", "lm_head"):
            return Cut(0, self.vocabulary.start, self.vocabulary.stop)
        if layer in ("q_proj", "o_proj"):
            total = c.num_attention_heads * d
            start, count = total // self.size * self.rank, total // self.size
        elif layer in ("k_proj", "v_proj"):
            total = c.num_key_value_heads * d
            start, count = self.rank * c.num_key_value_heads // self.size * d, self.kv * d
        elif layer in ("gate_proj", "up_proj", "down_proj"):
            total = c.intermediate_size
            start, count = total // self.size * self.rank, total // self.size
        else:
            return None
        if layer not in ROW_PARALLEL:
            return Cut(0, start, start + count)
        if kind == "bias":
            return None
        each = total / shape[-1]
        ends = start / each, (start + count) / each
        if any(not end.is_integer() for end in ends):
            raise ValueError(f"{name} is split within a group")
        return Cut(1, int(ends[0]), int(ends[1]))

    def take(self, weights):
        return {name: self.portion(w, self.cut(name, w.shape)) for name, w in weights.items()}

    @staticmethod
    def portion(w, cut):
        return w if cut is None else mx.take(w, mx.arange(cut.start, cut.stop), axis=cut.axis)

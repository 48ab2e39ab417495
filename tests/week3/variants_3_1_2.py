"""Known programs of task 3.1.2, the model over a ragged batch."""

import mlx.core as mx
import mlx.nn as nn
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, random_model, random_tokens
from tests.week2.doubling import Doubling, halved
from tests.week3.ragged import Calls, played
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.positional_encoding import RoPE
from tiny_llm_solution.qwen3_cached.parts import DENSE
from tiny_llm_solution.serving import request
from tiny_llm_solution.serving.memory import DenseMemory

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.2")

LATE = ((1, 3),), ((1, 1), (0, 4)), ((0, 1), (2, 2), (1, 1))


def run(program, base, seed, *calls, scored="last", dtype=mx.float32, parts=None, extra=None, **changes):
    model = random_model(base, seed, dtype, **changes).with_weights(**(extra or {}))
    config = ModelConfig.from_dict(model.config)
    made = program(config, halved(model).weights, parts) if parts else program(config, model.weights)
    memory = DenseMemory(config.num_hidden_layers)
    found = []
    for chunks, _ in played(request, Calls(calls), random_tokens(seed, 3, 5).tolist(), memory, scored):
        found.append(made(chunks, memory))
        mx.eval(found[-1])
    return tuple(found)


known.probe_table(
    one_prompt=lambda program: run(program, QWEN3, 1, ((0, 5),)),
    one_in_parts=lambda program: run(program, QWEN3, 2, ((0, 2),), ((0, 1),), ((0, 2),)),
    two_prompts=lambda program: run(program, QWEN3, 3, ((0, 3), (1, 2))),
    late=lambda program: run(program, QWEN3, 4, *LATE),
    all_scored=lambda program: run(program, QWEN25, 5, *LATE, scored="all"),
    # Some chunks have no row; the last call's all have one, or it has none at all.
    end_scored=lambda program: run(program, QWEN3, 6, *LATE, scored="end"),
    one_layer=lambda program: run(program, QWEN3, 7, *LATE, num_hidden_layers=1),
    three_layers=lambda program: run(program, QWEN25, 8, ((0, 2), (1, 1)), ((0, 1), (1, 1)), num_hidden_layers=3),
    tied=lambda program: run(program, QWEN25, 9, *LATE, tie_word_embeddings=True),
)


@known.probe()
def ragged_with_a_head_left_over(program):
    extra = {"lm_head.weight": normals(100)(29, 12)}
    return run(program, QWEN3, 10, ((0, 2),), tie_word_embeddings=True, extra=extra)


known.probe_table(
    mx.float16,
    half=lambda program: run(program, QWEN3, 11, ((0, 2), (1, 3)), ((1, 1), (0, 1)), dtype=mx.float16),
)


@known.probe()
def ragged_by_other_parts(program):
    """Its matrices are halved, and the parts double."""
    found = [run(program, QWEN25, 12, *LATE, parts=Doubling(), tie_word_embeddings=tied) for tied in (True, False)]
    return *found[0], *found[1]


@known.probe()
def ragged_refuses(program):
    """Which chunks are refused, and how many tokens memory has then."""
    model, found = random_model(QWEN3, 13, max_position_embeddings=6), []
    made = program(ModelConfig.from_dict(model.config), model.weights)
    for length in (5, 6, 7, 8):
        memory, one = DenseMemory(2), request.Request([3] * length, 1)
        memory.begin(one)
        memory.begin(other := request.Request([4], 1))
        chunks = [request.Chunk(other, 0, [4], 1), request.Chunk(one, 0, [3] * length, 1)]
        try:
            mx.eval(made(chunks[::-1] if length == 8 else chunks, memory))
            found.append(0)
        except ValueError:
            found.append(1)
        found += [cache.offset for caches in memory._caches.values() for cache in caches]
    return mx.array(found)


@known.probe()
def ragged_takes_many(program):
    """Each of three requests is short enough, and all of them together are not."""
    model, memory = random_model(QWEN3, 14, max_position_embeddings=6), DenseMemory(2)
    made, chunks = program(ModelConfig.from_dict(model.config), model.weights), []
    for length in (4, 1, 3):
        memory.begin(one := request.Request([3] * length, 1))
        chunks.append(request.Chunk(one, 0, [3] * length, 1))
    return made(chunks, memory)


@known.sized("a token of each of 4 requests, the model that comes with the course, float32")
def sized(program):
    checkpoint = embedded_model()
    config = ModelConfig.from_dict(checkpoint.config)
    made, memory = program(config, checkpoint.weights), DenseMemory(config.num_hidden_layers)
    requests = [request.Request([258] * 33, 1) for _ in range(4)]
    for one in requests:
        memory.begin(one)
        mx.eval(made([request.Chunk(one, 0, [258] * 32, 1)], memory))
    chunks = [request.Chunk(one, 32, [258], 1) for one in requests]

    def step():
        found = made(chunks, memory)
        for one in requests:
            memory.shorten(one, 32)
        return found

    return step


POSITIONS = "[position for chunk in chunks for position in range(chunk.start, chunk.end)]"
known.change(
    "positions-from-zero",
    ("range(chunk.start, chunk.end)", "range(len(chunk.tokens))"),
    fact="every chunk counts its positions from 0",
    question="Three tokens of a request are in memory. At which position does its next one stand?",
)
known.change(
    "positions-are-rows",
    (POSITIONS, "list(range(len(tokens)))"),
    fact="a token's position is its row among the tokens of all requests",
    question="Two requests begin in one batch. At which position does the second one's first token stand?",
)
known.change(
    "first-chunk-s-positions",
    ("range(chunk.start, chunk.end)", "range(chunks[0].start, chunks[0].start + len(chunk.tokens))"),
    fact="all chunks begin at the position of the first one",
    question="One request writes its tenth token, and another begins. Which positions do they bring?",
)
known.change(
    "positions-one-short",
    ("range(chunk.start, chunk.end)", "range(max(0, chunk.start - 1), max(0, chunk.start - 1) + len(chunk.tokens))"),
    fact="positions are counted from the last token in memory, and not from the one behind it",
    question="Three tokens are in memory, at positions 0, 1 and 2. Which is the next one?",
)
known.change(
    "queries-not-turned",
    ("turned(query, cos, sin), turned", "query, turned"),
    fact="queries are not turned",
    question="Which two arrays does RoPE turn?",
)
known.change(
    "keys-not-turned",
    ("turned(key, cos, sin)", "key"),
    fact="keys are not turned",
    question="Which two arrays does RoPE turn?",
)
known.change(
    "turned-before-the-norms",
    (
        """
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        query, key = turned(query, cos, sin), turned(key, cos, sin)  # T x H x D, T x H_kv x D
        """,
        """
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        if self.q_norm and self.k_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        """,
    ),
    fact="queries and keys are turned before they go through q_norm and k_norm",
    question="What does Qwen3 do first with a head's query: norm it, or turn it?",
)
known.change(
    "sines-and-cosines-exchanged",
    ("mx.cos(angles), mx.sin(angles)", "mx.sin(angles), mx.cos(angles)"),
    fact="cosines and sines are exchanged",
    question="What should become of a token at position 0, whose angles are all 0?",
)
known.change(
    "theta-default",
    ("self.longest, config.rope_theta", "self.longest, 10000.0"),
    fact="theta is 10,000, not the config's number",
    question="Where does RoPE's base come from?",
)
known.change(
    "one-layer-s-memory",
    ("memory.attend(self.number, ", "memory.attend(0, "),
    fact="every layer tells memory that it is layer 0",
    question="How does memory know which layer's keys it is given?",
)
known.change(
    "first-rows-scored",
    ("mx.array(rows or [0])", "mx.arange(max(1, len(rows)))"),
    fact="the first rows are scored, as many as are asked for",
    question="Two requests bring three tokens each. Which of the six rows say what comes next?",
)
known.change(
    "last-rows-scored",
    ("mx.array(rows or [0])", "mx.arange(len(tokens) - max(1, len(rows)), len(tokens))"),
    fact="the last rows are scored, as many as are asked for",
    question="Two requests bring three tokens each. Which of the six rows say what comes next?",
)
known.change(
    "row-before",
    ("mx.array(rows or [0])", "mx.array([max(0, row - 1) for row in rows] or [0])"),
    fact="the row before the one that is asked for is scored",
    question="Which row of a chunk says what follows its last token?",
)
known.change(
    "every-row-scored",
    ("self.head(self.norm(x[mx.array(rows or [0])]))[: len(rows)]", "self.head(self.norm(x))"),
    fact="every token is scored, whoever is asked for",
    question="How many rows should there be for a prompt of 100 tokens and three requests that write?",
)
known.change(
    "one-row-a-chunk",
    (
        "rows = scored_rows(chunks)",
        "rows = [sum(len(each.tokens) for each in chunks[: i + 1]) - 1 for i in range(len(chunks))]",
    ),
    fact="each chunk's last token is scored, whatever its `scored` says",
    question="What does scored = 0 say, and what scored = 3?",
)
known.change(
    "nobody-scored-nothing-read",
    (
        "x = self.embedding(tokens)  # T x E",
        """
        x = self.embedding(tokens)
        if not scored_rows(chunks):
            return self.head(self.norm(x))[:0]
        """,
    ),
    fact="chunks of which none is scored do not go through the layers, and memory gets nothing of them",
    question="Nobody asks what follows the first half of a prompt. Who will need its keys?",
)
known.change(
    "no-final-norm",
    ("self.norm(x[mx.array(rows or [0])])", "x[mx.array(rows or [0])]"),
    fact="the final norm is left out",
    question="Which weight of the model is still unused?",
)
known.change(
    "always-tied",
    ("self.head(self.norm", "self.embedding.as_linear(self.norm"),
    fact="the head is always the embedding's table, also where the config does not tie them",
    question="What is lm_head.weight for?",
)
known.change(
    "head-wherever-there-is-one",
    (
        "self.embedding.as_linear if config.tie_word_embeddings",
        'self.embedding.as_linear if "lm_head.weight" not in weights',
    ),
    fact="lm_head.weight is used wherever the weights hold one, also where the config ties the head to the table",
    question="Who decides whether the head is tied: the config, or what happens to be in the file?",
)
known.change(
    "one-layer-only",
    (
        "x = layer(x, cos, sin, memory, chunks)",
        "x = layer(x, cos, sin, memory, chunks) if layer is self.layers[0] else x",
    ),
    fact="only the first layer is run",
    question="How many layers does the config ask for, and how often does your loop run?",
)
known.change(
    "first-weights-for-all",
    ('f"model.layers.{number}."', '"model.layers.0."'),
    fact="every layer has the weights of layer 0",
    question="Does the number in `model.layers.0.` change while your layers are built?",
)
known.change(
    "mlp-reads-x",
    ("self.mlp_norm(h)", "self.mlp_norm(x)"),
    fact="the MLP reads the stream from before attention",
    question="Where does the second branch leave the stream?",
)
known.change(
    "no-residual-at-attention",
    ("h = x + self.attention(", "h = self.attention("),
    fact="what attention gives takes the place of the stream, and is not added to it",
    question="What is left of x behind your attention?",
)
known.change(
    "no-residual-at-mlp",
    ("return h + self.mlp(", "return self.mlp("),
    fact="what the MLP gives takes the place of the stream, and is not added to it",
    question="What is left of x in what your layer returns?",
)
known.change(
    "norms-left-out",
    ("if self.q_norm and self.k_norm:", "if False:"),
    fact="queries and keys are not normalised",
    question="Which of Qwen3's weights do you not use?",
)
known.change(
    "biases-left-out",
    (", bias=not qwen3", ""),
    fact="the biases of Qwen2.5 are left out",
    question="Which of Qwen2.5's weights do you not use?",
)
known.change(
    "eps-default",
    ('weights["input_layernorm.weight"], eps)', 'weights["input_layernorm.weight"])'),
    ('weights["post_attention_layernorm.weight"], eps)', 'weights["post_attention_layernorm.weight"])'),
    fact="the two norms of a layer have an eps of their own, not the config's",
    question="Where does the norms' eps come from?",
)
known.change(
    "parts-left-alone",
    ("super().__init__", "parts = DENSE\nsuper().__init__"),
    fact="the matrices are used as they stand in the checkpoint, whatever parts are given",
    question="What is the constructor's third argument for?",
)
known.change(
    "never-refused",
    ("> self.longest:", "> 10**9:"),
    fact="tokens beyond max_position_embeddings are read, with angles that nobody has computed",
    question="What does MLX give for the row 7 of a table that has six?",
)
known.change(
    "refused-one-early",
    ("> self.longest:", ">= self.longest:"),
    fact="a request with as many tokens as max_position_embeddings is refused",
    question="At which position does the last of six tokens stand?",
)
known.change(
    "refused-by-the-sum",
    ("max(chunk.end for chunk in chunks)", "sum(chunk.end for chunk in chunks)"),
    fact="the tokens of all requests together are compared with max_position_embeddings",
    question="Eight requests of 600 tokens, and a model that takes 4,096. Is one of them too long?",
)
known.change(
    "refused-by-the-first",
    ("max(chunk.end for chunk in chunks)", "chunks[0].end"),
    fact="only the first chunk is compared with max_position_embeddings",
    question="Which of several chunks goes furthest?",
)


@known.accepted("operators-of-mlx")
class ModelOfOperators:
    def __init__(self, config, weights, parts=DENSE):
        self.config, self.layers = config, []
        biases, norms = ("", "qk") if config.model_type == "qwen3" else ("qkv", "")
        for at in (f"model.layers.{number}." for number in range(config.num_hidden_layers)):
            own = {name[len(at) :]: w for name, w in weights.items() if name.startswith(at)}
            matrices = {x: parts.projection(own, f"self_attn.{x}_proj", x in biases) for x in "qkvo"}
            matrices |= {x: parts.projection(own, f"mlp.{x}_proj") for x in ("gate", "up", "down")}
            scales = {x: own[f"self_attn.{x}_norm.weight"] for x in norms}
            self.layers.append(
                (own["input_layernorm.weight"], own["post_attention_layernorm.weight"], matrices, scales)
            )
        self.table, self.norm = parts.embedding(weights, "model.embed_tokens", config), weights["model.norm.weight"]
        self.rope = RoPE(config.head_dim, config.max_position_embeddings, config.rope_theta)
        self.head = self.table.as_linear if config.tie_word_embeddings else parts.projection(weights, "lm_head")

    def __call__(self, chunks, memory):
        c = self.config
        for chunk in chunks:
            if chunk.end > c.max_position_embeddings:
                raise ValueError(f"{chunk.end} tokens of {c.max_position_embeddings}")
        x = mx.concatenate([self.table(mx.array(chunk.tokens)) for chunk in chunks])
        at = [chunk.start + i for chunk in chunks for i in range(len(chunk.tokens))]
        for number, (before, behind, matrices, scales) in enumerate(self.layers):
            y = mx.fast.rms_norm(x, before, c.rms_norm_eps)
            heads = {}
            for name in "qkv":
                heads[name] = matrices[name](y).reshape(len(at), -1, c.head_dim)
                if name in scales:
                    heads[name] = mx.fast.rms_norm(heads[name], scales[name], c.rms_norm_eps)
                if name != "v":
                    turns = [slice(position, position + 1) for position in at]
                    heads[name] = self.rope(heads[name][:, None], turns)[:, 0]
            x = x + matrices["o"](
                memory.attend(number, heads["q"], heads["k"], heads["v"], chunks).reshape(len(at), -1)
            )
            y = mx.fast.rms_norm(x, behind, c.rms_norm_eps)
            x = x + matrices["down"](nn.silu(matrices["gate"](y)) * matrices["up"](y))
        rows, end = [], 0
        for chunk in chunks:
            end += len(chunk.tokens)
            rows.append(x[end - chunk.scored : end])
        return self.head(mx.fast.rms_norm(mx.concatenate(rows), self.norm, c.rms_norm_eps))

"""Known programs of task 3.1.2, the model over a ragged batch."""

from functools import partial

import mlx.core as mx
import mlx.nn as nn
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, random_model, random_tokens
from tests.week2.doubling import Doubling, halved
from tests.week3.ragged import Calls, played
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.positional_encoding import RoPE
from tiny_llm_solution.qwen3_cached.parts import DENSE
from tiny_llm_solution.serving import request
from tiny_llm_solution.serving.kv_cache import DenseKVCache

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("3.1.2")

HEAD = {"lm_head.weight": normals(100)(29, 12)}
LATE = ((1, 3),), ((1, 1), (0, 4)), ((0, 1), (2, 2), (1, 1))


def run(program, base, seed, *calls, scored="last", dtype=mx.float32, parts=None, extra=None, **changes):
    model = random_model(base, seed, dtype, **changes).with_weights(**(extra or {}))
    config = ModelConfig.from_dict(model.config)
    made = program(config, halved(model).weights, parts) if parts else program(config, model.weights)
    kv_cache = DenseKVCache(config.num_hidden_layers)
    found = []
    for chunks, _ in played(request, Calls(calls), random_tokens(seed, 3, 5).tolist(), kv_cache, scored):
        found.append(made(chunks, kv_cache))
        mx.eval(found[-1])
    return tuple(found)


known.probe_table(
    one_prompt=lambda program: run(program, QWEN3, 1, ((0, 5),)),
    one_in_parts=lambda program: run(program, QWEN3, 2, ((0, 2),), ((0, 1),), ((0, 2),)),
    two_prompts=lambda program: run(program, QWEN3, 3, ((0, 3), (1, 2))),
    late=lambda program: run(program, QWEN3, 4, *LATE),
    all_scored=lambda program: run(program, QWEN25, 5, *LATE, scored="all"),
    some_scored=lambda program: run(program, QWEN25, 5, *LATE, scored="some"),
    # Some chunks have no logits; the last call's chunks all have one row, or none.
    end_scored=lambda program: run(program, QWEN3, 6, *LATE, scored="end"),
    one_layer=lambda program: run(program, QWEN3, 7, *LATE, num_hidden_layers=1),
    three_layers=lambda program: run(program, QWEN25, 8, ((0, 2), (1, 1)), ((0, 1), (1, 1)), num_hidden_layers=3),
    tied=lambda program: run(program, QWEN25, 9, *LATE, tie_word_embeddings=True),
    unused_head=lambda program: run(program, QWEN3, 10, ((0, 2),), tie_word_embeddings=True, extra=HEAD),
)


known.probe_table(
    mx.float16, half=lambda program: run(program, QWEN3, 11, ((0, 2), (1, 3)), ((1, 1), (0, 1)), dtype=mx.float16)
)


@known.probe()
def ragged_by_other_parts(program):
    """The weights are halved, and the layer factory doubles."""
    found = [run(program, QWEN25, 12, *LATE, parts=Doubling(), tie_word_embeddings=tied) for tied in (True, False)]
    return *found[0], *found[1]


@known.probe()
def ragged_refuses(program):
    """Return which chunks raise, and how many tokens are cached then."""
    model, found = random_model(QWEN3, 13, max_position_embeddings=6), []
    made = program(ModelConfig.from_dict(model.config), model.weights)
    for length in (5, 6, 7, 8):
        kv_cache, one = DenseKVCache(2), request.Request([3] * length, 1)
        kv_cache.admit(one)
        kv_cache.admit(other := request.Request([4], 1))
        chunks = [request.Chunk(other, 0, [4], 1), request.Chunk(one, 0, [3] * length, 1)]
        try:
            mx.eval(made(chunks[::-1] if length == 8 else chunks, kv_cache))
            found.append(0)
        except ValueError:
            found.append(1)
        found += [cache.offset for caches in kv_cache._caches.values() for cache in caches]
    return mx.array(found)


@known.probe()
def ragged_needs_every_weight(program):
    """Return for each weight whether building the model without it raises a KeyError."""
    models = [random_model(base, 15, num_hidden_layers=1) for base in (QWEN3, QWEN25)]
    cases = [(model, name) for model in models for name in sorted(model.weights)]

    def build(case):
        model, name = case
        program(ModelConfig.from_dict(model.config), model.without(name).weights)

    return refusals(build, cases, KeyError)


@known.probe()
def ragged_computes_other_logits(program):
    """Return whether a chunk of 32 tokens allocates the logits of all of them, with one row and with none."""
    model, found = random_model(QWEN3, 16, vocab_size=50000, max_position_embeddings=1000), []
    made = program(ModelConfig.from_dict(model.config), model.weights)
    for wanted in (1, 1, 0):
        kv_cache, one = DenseKVCache(2), request.Request([3] * 40, 1)
        kv_cache.admit(one)
        taken = peak_bytes(partial(made, [request.Chunk(one, 0, [3] * 32, wanted)], kv_cache))
        found.append(taken > 32 * 50000 * 4 // 2)
    return mx.array(found[1:])


@known.probe()
def ragged_takes_many(program):
    """Each of three requests is short enough, but not their sum."""
    model, kv_cache = random_model(QWEN3, 14, max_position_embeddings=6), DenseKVCache(2)
    made, chunks = program(ModelConfig.from_dict(model.config), model.weights), []
    for length in (4, 1, 3):
        kv_cache.admit(one := request.Request([3] * length, 1))
        chunks.append(request.Chunk(one, 0, [3] * length, 1))
    return made(chunks, kv_cache)


@known.sized("a token of each of 4 requests, the course's model, float32")
def sized(program):
    checkpoint = embedded_model()
    config = ModelConfig.from_dict(checkpoint.config)
    made, kv_cache = program(config, checkpoint.weights), DenseKVCache(config.num_hidden_layers)
    requests = [request.Request([258] * 33, 1) for _ in range(4)]
    for one in requests:
        kv_cache.admit(one)
        mx.eval(made([request.Chunk(one, 0, [258] * 32, 1)], kv_cache))
    chunks = [request.Chunk(one, 32, [258], 1) for one in requests]

    def step():
        found = made(chunks, kv_cache)
        for one in requests:
            kv_cache.truncate(one, 32)
        return found

    return step


POSITIONS = "[position for chunk in chunks for position in range(chunk.start, chunk.end)]"
known.change(
    "positions-from-zero",
    ("range(chunk.start, chunk.end)", "range(len(chunk.tokens))"),
    fact="every chunk's positions start at 0",
    question="Three tokens of a request are cached. What is the position of its next one?",
)
known.change(
    "positions-are-rows",
    (POSITIONS, "list(range(len(tokens)))"),
    fact="a token's position is its row among the tokens of all requests",
    question="Two requests start in one batch. What is the position of the second one's first token?",
)
known.change(
    "first-chunk-s-positions",
    ("range(chunk.start, chunk.end)", "range(chunks[0].start, chunks[0].start + len(chunk.tokens))"),
    fact="all chunks start at the first chunk's position",
    question="One request decodes its tenth token, and another starts. Which positions do their tokens have?",
)
known.change(
    "positions-one-short",
    ("range(chunk.start, chunk.end)", "range(max(0, chunk.start - 1), max(0, chunk.start - 1) + len(chunk.tokens))"),
    fact="a chunk's positions start at the last cached token's, one too early",
    question="Three tokens are cached, at positions 0, 1 and 2. Which position is next?",
)
known.change(
    "queries-without-rope",
    ("apply_rope(query, cos, sin), apply_rope", "query, apply_rope"),
    fact="RoPE is not applied to the queries",
    question="Which two arrays does RoPE rotate?",
)
known.change(
    "keys-without-rope",
    ("apply_rope(key, cos, sin)", "key"),
    fact="RoPE is not applied to the keys",
    question="Which two arrays does RoPE rotate?",
)
known.change(
    "theta-default",
    ("self.longest, config.rope_theta", "self.longest, 10000.0"),
    fact="theta is 10,000 instead of the config's rope_theta",
    question="Where does RoPE's base come from?",
)
known.change(
    "one-layer-s-memory",
    ("kv_cache.attend(self.number, ", "kv_cache.attend(0, "),
    fact="every layer passes layer number 0 to the KV cache",
    question="How does the KV cache know whose layer's keys it gets?",
)
known.change(
    "first-rows-scored",
    ("mx.array(rows or [0])", "mx.arange(max(1, len(rows)))"),
    fact="logits are computed for the first rows of the batch, as many as are requested",
    question="Two requests have three tokens each. Which of the six rows predict a next token?",
)
known.change(
    "last-rows-scored",
    ("mx.array(rows or [0])", "mx.arange(len(tokens) - max(1, len(rows)), len(tokens))"),
    fact="logits are computed for the last rows of the batch, as many as are requested",
    question="Two requests have three tokens each. Which of the six rows predict a next token?",
)
known.change(
    "every-row-scored",
    ("self.head(self.norm(x[mx.array(rows or [0])]))[: len(rows)]", "self.head(self.norm(x))"),
    fact="logits are computed for every token, whatever num_logits says",
    question="How many rows should there be for a prompt of 100 tokens and three decoding requests?",
)
known.change(
    "head-of-every-row",
    (
        "self.head(self.norm(x[mx.array(rows or [0])]))[: len(rows)]",
        "self.head(self.norm(x))[mx.array(rows or [0])][: len(rows)]",
    ),
    fact="logits are computed for every token, and those that no chunk asks for are discarded",
    question="Which line of a prefill of 1,000 tokens takes the most memory, and how many of its rows are used?",
)
known.change(
    "row-for-no-logits",
    ("[: len(rows)]", ""),
    fact="one row is returned even if no chunk asks for logits",
    question="Every chunk has num_logits = 0. How many rows should there be?",
)
known.change(
    "one-row-a-chunk",
    (
        "rows = logit_rows(chunks)",
        "rows = [sum(len(each.tokens) for each in chunks[: i + 1]) - 1 for i in range(len(chunks))]",
    ),
    fact="each chunk gets logits for its last token only, whatever its num_logits says",
    question="What does num_logits = 0 mean, and num_logits = 3?",
)
known.change(
    "one-row-or-none",
    (
        "rows = logit_rows(chunks)",
        "rows = [sum(len(o.tokens) for o in chunks[: i + 1]) - 1 for i, each in enumerate(chunks) if each.num_logits]",
    ),
    fact="a chunk with num_logits above 1 gets logits for its last token only",
    question="A request verifies three draft tokens with num_logits = 4. How many rows does it need?",
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
    fact="the output head is always the embedding table, even if the config does not tie them",
    question="What is lm_head.weight for?",
)
known.change(
    "head-wherever-there-is-one",
    (
        "self.embedding.as_linear if config.tie_word_embeddings",
        'self.embedding.as_linear if "lm_head.weight" not in weights',
    ),
    fact="lm_head.weight is used whenever it exists, even if the config ties the head",
    question="What decides whether the head is tied: the config, or the tensors that the file happens to contain?",
)
known.change(
    "one-layer-only",
    (
        "x = layer(x, cos, sin, kv_cache, chunks)",
        "x = layer(x, cos, sin, kv_cache, chunks) if layer is self.layers[0] else x",
    ),
    fact="only the first layer runs",
    question="How many layers does the config have, and how often does your loop run?",
)
known.change(
    "first-weights-for-all",
    ('f"model.layers.{number}."', '"model.layers.0."'),
    fact="every layer uses the weights of layer 0",
    question="Does the number in `model.layers.0.` change while your layers are built?",
)
known.change(
    "mlp-reads-x",
    ("self.mlp_norm(h)", "self.mlp_norm(x)"),
    fact="the MLP's input is the residual stream before attention",
    question="What is the input of the second branch?",
)
known.change(
    "no-residual-at-attention",
    ("h = x + self.attention(", "h = self.attention("),
    fact="the attention output replaces the residual stream instead of being added",
    question="What is left of x after your attention?",
)
known.change(
    "no-residual-at-mlp",
    ("return h + self.mlp(", "return self.mlp("),
    fact="the MLP output replaces the residual stream instead of being added",
    question="What is left of x in what your layer returns?",
)
known.change(
    "norms-left-out",
    ("if self.q_norm and self.k_norm:", "if False:"),
    fact="q_norm and k_norm are missing",
    question="Which of Qwen3's weights do you not use?",
)
known.change(
    "biases-left-out",
    (", bias=not qwen3", ""),
    fact="the biases of Qwen2.5 are missing",
    question="Which of Qwen2.5's weights do you not use?",
)
known.change(
    "what-there-are-weights-for",
    ('if qwen3 else None for x in "qk"', 'if f"self_attn.{x}_norm.weight" in weights else None for x in "qk"'),
    ("bias=not qwen3", 'bias=f"self_attn.{x}_proj.bias" in weights'),
    fact="norms and biases are left out if their weights are missing, and no error is raised",
    question="A checkpoint has lost a weight. How does its user find out?",
)
known.change(
    "parts-left-alone",
    ("super().__init__", "parts = DENSE\nsuper().__init__"),
    fact="the projections are built straight from the checkpoint, ignoring the layer factory that is passed in",
    question="What is the constructor's third argument for?",
)
known.change(
    "never-refused",
    ("> self.longest:", "> 10**9:"),
    fact="tokens beyond max_position_embeddings are accepted, with angles that were never computed",
    question="What does MLX return for row 7 of a table with six rows?",
)
known.change(
    "refused-one-early",
    ("> self.longest:", ">= self.longest:"),
    fact="a request with exactly max_position_embeddings tokens raises",
    question="What is the position of the last of six tokens?",
)
known.change(
    "refused-by-the-sum",
    ("max(chunk.end for chunk in chunks)", "sum(chunk.end for chunk in chunks)"),
    fact="the total over all requests is compared with max_position_embeddings",
    question="Eight requests of 600 tokens, and a model with a limit of 4,096. Is one of them too long?",
)
known.change(
    "refused-too-late",
    (
        """
        if (end := max(chunk.end for chunk in chunks)) > self.longest:
            raise ValueError(f"a request has {end} tokens, but the model takes at most {self.longest}")
        """,
        "end = max(chunk.end for chunk in chunks)",
    ),
    (
        "rows = logit_rows(chunks)",
        """
        if end > self.longest:
            raise ValueError(f"a request has {end} tokens, but the model takes at most {self.longest}")
        rows = logit_rows(chunks)
        """,
    ),
    fact="the positions are validated after the layers have appended to the KV cache",
    question="A chunk is rejected. How many of its tokens are in the KV cache by then?",
)
for which, index in (("first", 0), ("last", -1)):
    known.change(
        f"refused-by-the-{which}",
        ("max(chunk.end for chunk in chunks)", f"chunks[{index}].end"),
        fact=f"only the {which} chunk is compared with max_position_embeddings",
        question="Which of several chunks reaches the highest position?",
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

    def __call__(self, chunks, kv_cache):
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
                kv_cache.attend(number, heads["q"], heads["k"], heads["v"], chunks).reshape(len(at), -1)
            )
            y = mx.fast.rms_norm(x, behind, c.rms_norm_eps)
            x = x + matrices["down"](nn.silu(matrices["gate"](y)) * matrices["up"](y))
        rows, end = [], 0
        for chunk in chunks:
            end += len(chunk.tokens)
            rows.append(x[end - chunk.num_logits : end])
        return self.head(mx.fast.rms_norm(mx.concatenate(rows), self.norm, c.rms_norm_eps))

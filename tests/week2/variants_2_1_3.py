"""Reference variants of task 2.1.3, the model with caches."""

import mlx.core as mx
import mlx.nn as nn
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, random_model, random_tokens
from tests.week2.doubling import Doubling, halved
from tests.week2.in_parts import Parts, in_parts
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.qwen3_cached.attention import Qwen3CachedAttention
from tiny_llm_solution.qwen3_cached.cache import KVCache
from tiny_llm_solution.qwen3_cached.parts import DENSE

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.1.3")


def made(program, base, seed, dtype=mx.float32, extra=None, doubling=False, **changes):
    """Return the model; `doubling` uses doubling parts and halved matrices."""
    model = random_model(base, seed, dtype, **changes).with_weights(**(extra or {}))
    weights = (halved(model) if doubling else model).weights
    return program(ModelConfig.from_dict(model.config), weights, *[Doubling()] * doubling)


def run_model(program, base, seed, *parts, own_caches=False, batch=2, **options):
    """Return the logits of every position, and each cache's token count afterwards."""
    model = made(program, base, seed, **options)
    caches = [KVCache() for _ in range(2)] if own_caches else model.new_caches()

    def rewind(count):
        for each in {id(cache): cache for cache in caches}.values():
            each.rewind(count)

    tokens = random_tokens(seed, batch, sum(n for n in parts if n > 0))
    found = in_parts(lambda part: model(part, caches, all_positions=True), rewind, tokens, Parts(parts))
    return found, mx.array([cache.offset for cache in caches])


known.probe_table(
    parts=lambda program: run_model(program, QWEN3, 31, 3, 1, 2),
    with_caches_of_mine=lambda program: run_model(program, QWEN3, 32, 2, 2, own_caches=True),
    one_layer=lambda program: run_model(program, QWEN3, 33, 2, 2, num_hidden_layers=1),
    three_layers=lambda program: run_model(program, QWEN3, 34, 2, 1, num_hidden_layers=3),
    qwen25_tied=lambda program: run_model(program, QWEN25, 35, 2, 2, tie_word_embeddings=True),
    rewound=lambda program: run_model(program, QWEN25, 36, 2, -2, 2),
    with_a_head_left_over=lambda program: run_model(
        program, QWEN3, 37, 2, 2, tie_word_embeddings=True, extra={"lm_head.weight": normals(370)(29, 12)}
    ),
    by_other_parts=lambda program: tuple(
        made(program, QWEN25, 43, doubling=True, tie_word_embeddings=tied)(random_tokens(43, 1, 3), all_positions=True)
        for tied in (True, False)
    ),
)
known.probe_table(mx.float16, half=lambda program: run_model(program, QWEN3, 38, 2, 1, dtype=mx.float16))


@known.probe()
def model_last_token(program):
    model, tokens = made(program, QWEN3, 39), random_tokens(39, 2, 4)
    caches = model.new_caches()
    return model(tokens[:, :3], caches), model(tokens[:, 3:], caches)


@known.probe()
def model_without_caches(program):
    """Two sequences, one after the other."""
    model, tokens = made(program, QWEN3, 40), random_tokens(40, 2, 6)
    return model(tokens[:, :3]), model(tokens[:, 3:]), model(tokens[:, :3], all_positions=True)


@known.probe()
def model_numbers_of_caches(program):
    model, tokens = made(program, QWEN3, 41), random_tokens(41, 1, 2)
    refused = refusals(lambda count: model(tokens, [KVCache() for _ in range(count)]), (0, 1, 3))
    return mx.array(len(model.new_caches())), refused


@known.probe()
def model_memory(program):
    """Return whether one call allocates the logits of all positions."""
    model, tokens = made(program, QWEN3, 42, vocab_size=50000, max_position_embeddings=1000), random_tokens(42, 1, 32)
    mx.eval(model(tokens))
    return mx.array(peak_bytes(lambda: model(tokens)) > 32 * 50000 * 4 // 2)


@known.sized("one token after 128, the embedded model, float32")
def sized(program):
    checkpoint = embedded_model()
    model = program(ModelConfig.from_dict(checkpoint.config), checkpoint.weights)
    caches = model.new_caches()
    mx.eval(model(random_tokens(1, 1, 128, vocab_size=2048), caches))

    def run():
        found = model(mx.array([[258]]), caches)
        for cache in caches:
            cache.rewind(1)
        return found

    return run


known.change(
    "first-cache-for-all",
    ("layer(x, cache)", "layer(x, caches[0])"),
    fact="all layers use the first cache",
    question="Which layer's keys are in caches[0]?",
)
known.change(
    "one-cache-many-times",
    ("[KVCache() for _ in self.layers]", "[KVCache()] * len(self.layers)"),
    fact="new_caches returns the same cache several times",
    question="How many lists does [[]] * 3 create, and what is in the second after you append to the first?",
)
known.change(
    "caches-left-empty",
    ("layer(x, cache)", "layer(x, KVCache())"),
    fact="every call creates new caches, and the ones passed in stay empty",
    question="After a call with five tokens, what is the offset of the caches that were passed in?",
)
known.change(
    "caches-of-the-model",
    ("self.new_caches() if", 'vars(self).setdefault("kept", self.new_caches()) if'),
    fact="the model keeps its own caches, so a call without caches continues the previous sequence",
    question="Two sequences run one after the other, without caches. What does the second know of the first?",
)
known.change(
    "one-cache-too-few",
    ("[KVCache() for _ in self.layers]", "[KVCache() for _ in self.layers[1:]]"),
    fact="new_caches returns one cache fewer than there are layers",
    question="How many layers attend to earlier tokens?",
)
known.change(
    "number-not-compared",
    ("if len(caches) != len(self.layers):", "if False:"),
    ("strict=True", "strict=False"),
    fact="only as many layers run as there are caches, and extra caches are ignored",
    question="Where does zip stop if one list is shorter than the other?",
)
known.change(
    "first-position",
    ("x[:, -1:]", "x[:, :1]"),
    fact="the logits of the first position are returned instead of those of the last",
    question="Which of the L positions predicts the next token?",
)
known.change(
    "position-dropped",
    ("x[:, -1:]", "x[:, -1]"),
    fact="the logits of the last position have shape N x V",
    question="Which shape does the docstring specify?",
)
known.change(
    "every-position-always",
    ("x if all_positions else x[:, -1:]", "x"),
    fact="the logits of all positions are returned even when only the last is requested",
    question="How many rows of logits does the next token need?",
)
known.change(
    "last-position-always",
    ("x if all_positions else x[:, -1:]", "x[:, -1:]"),
    fact="only the last position's logits are returned, even with all_positions=True",
    question="What does all_positions=True mean?",
)
known.change(
    "sliced-after-the-head",
    ("(x if all_positions else x[:, -1:]))", "(x))[:, 0 if all_positions else -1 :]"),
    fact="the logits of all positions are computed, and all but the last are discarded",
    question="Which line does most of the work, and is it before or after your slice?",
)
known.change(
    "no-final-norm",
    ("self.norm(x if all_positions else x[:, -1:])", "x if all_positions else x[:, -1:]"),
    fact="the final norm is missing",
    question="Which weight of the model does your code never use?",
)
known.change(
    "no-norm-before-the-last-logits",
    ("self.norm(x if all_positions else x[:, -1:])", "self.norm(x) if all_positions else x[:, -1:]"),
    fact="the final norm is only applied if the logits of all positions are returned",
    question="What happens to the residual stream before the head: with all_positions=True, and without?",
)
known.change(
    "every-position-without-caches",
    ("caches = self.new_caches() if", "all_positions = all_positions or caches is None\ncaches = self.new_caches() if"),
    fact="the logits of all positions are returned whenever no caches are given",
    question="Which argument decides how many rows of logits are returned?",
)
known.change(
    "always-tied",
    ("return self.head(", "return self.embedding.as_linear("),
    fact="the head is always the embedding table, even when the config does not tie them",
    question="What is lm_head.weight for?",
)
known.change(
    "head-wherever-there-is-one",
    ("if config.tie_word_embeddings else parts.projection", 'if "lm_head.weight" not in weights else parts.projection'),
    fact="lm_head.weight is used whenever the weights contain it, even when the config ties the head to the table",
    question="What decides whether the head is tied: the config, or the contents of the file?",
)
known.change(
    "one-layer-only",
    ("x = layer(x, cache)", "x = layer(x, cache) if layer is self.layers[0] else x"),
    fact="only the first layer is run",
    question="How many layers does the config specify, and how often does your loop run?",
)
known.change(
    "first-weights-for-all",
    ('f"model.layers.{number}."', '"model.layers.0."'),
    fact="every layer has the weights of layer 0",
    question="Does the number in `model.layers.0.` change while your layers are built?",
)
known.change(
    "layers-all-read-embeddings",
    ("layer(x, cache)", "layer(self.embedding(tokens), cache)"),
    fact="every layer reads the embeddings, and only the last layer's output is used",
    question="What does layer 1 read: the output of layer 0, or the input of layer 0?",
)
known.change(
    "mlp-reads-x",
    ("self.mlp_norm(h)", "self.mlp_norm(x)"),
    fact="the MLP reads the residual stream from before attention",
    question="Where does the second branch read the residual stream?",
)
known.change(
    "no-residual-at-attention",
    ("h = x + self.attention", "h = self.attention"),
    fact="the attention output replaces the residual stream instead of being added to it",
    question="Is x still part of your h?",
)
known.change(
    "no-residual-at-mlp",
    ("return h + self.mlp(", "return self.mlp("),
    fact="the MLP output replaces the residual stream instead of being added to it",
    question="Is h still part of your layer's result?",
)
known.change(
    "attention-reads-the-stream",
    ("self.attention(self.attention_norm(x), ", "self.attention(x, "),
    fact="attention reads the residual stream directly, without the norm",
    question="Which norm comes before attention?",
)
known.change(
    "one-norm-for-both-branches",
    ("self.mlp_norm(h)", "self.attention_norm(h)"),
    fact="the MLP branch uses the norm of the attention branch",
    question="How many norms does a layer have outside its attention?",
)
known.change(
    "parts-left-alone",
    ("super().__init__", "parts = DENSE\nsuper().__init__"),
    fact="the matrices are read from the checkpoint directly, and `parts` is ignored",
    question="What is the constructor's third argument for?",
)
known.change(
    "attention-without-parts",
    ("Qwen3CachedAttention(config, own, parts)", "Qwen3CachedAttention(config, own)"),
    fact="attention reads its matrices from the checkpoint directly, and `parts` is ignored",
    question="Which arguments does Qwen3CachedAttention take, and which do you pass?",
)
known.change(
    "embedding-without-parts",
    ("parts.embedding", "DENSE.embedding"),
    fact="the embedding is read from the checkpoint directly, and `parts` is ignored",
    question="Which method of `parts` creates the embedding?",
)
known.change(
    "gate-without-parts",
    ("SwiGLU(own, parts)", "SwiGLU(own, DENSE)"),
    fact="the MLP's matrices are read from the checkpoint directly, and `parts` is ignored",
    question="Which of a layer's seven matrices does `parts` create?",
)
known.change(
    "head-without-parts",
    ("else parts.projection", "else DENSE.projection"),
    fact="lm_head.weight is read from the checkpoint directly, and `parts` is ignored",
    question="Where does your head come from when it is not tied?",
)


@known.accepted("operators-of-mlx")
class ModelOfOperators:
    def __init__(self, config, weights, parts=DENSE):
        self.config, self.layers = config, []
        for at in (f"model.layers.{number}." for number in range(config.num_hidden_layers)):
            own = {name[len(at) :]: w for name, w in weights.items() if name.startswith(at)}
            mlp = [parts.projection(weights, f"{at}mlp.{name}_proj") for name in ("gate", "up", "down")]
            norms = [own[f"{name}.weight"] for name in ("input_layernorm", "post_attention_layernorm")]
            self.layers.append((*norms, Qwen3CachedAttention(config, own, parts), *mlp))
        self.table, self.norm = parts.embedding(weights, "model.embed_tokens", config), weights["model.norm.weight"]
        self.head = self.table.as_linear if config.tie_word_embeddings else parts.projection(weights, "lm_head")

    def new_caches(self):
        return [KVCache() for _ in range(len(self.layers))]

    def __call__(self, tokens, caches=None, all_positions=False):
        caches = caches if caches is not None else self.new_caches()
        if len(caches) != len(self.layers):
            raise ValueError(f"{len(caches)} caches, {len(self.layers)} layers")
        x, eps = self.table(tokens), self.config.rms_norm_eps
        for cache, (before, behind, attention, gate, up, down) in zip(caches, self.layers, strict=True):
            x = x + attention(mx.fast.rms_norm(x, before, eps), cache)
            y = mx.fast.rms_norm(x, behind, eps)
            x = x + down(nn.silu(gate(y)) * up(y))
        if not all_positions:
            x = x[:, x.shape[1] - 1 :, :]
        return self.head(mx.fast.rms_norm(x, self.norm, eps))

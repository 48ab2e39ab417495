"""Reference variants of task 1.5.3, the model."""

import dataclasses

import mlx.core as mx
from tests.week1.layer_of_operators import layer_of_operators, needed
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, random_model, random_tokens
from tiny_llm_solution.basics import linear
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.qwen3 import Qwen3Model

from tiny_llm_course.testkit.inputs import causal, normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.5.3")


def run_model(program, base, seed, dtype=mx.float32, rows=2, length=5, extra=None, **changes):
    model = random_model(base, seed, dtype, **changes).with_weights(**(extra or {}))
    return program(ModelConfig.from_dict(model.config), model.weights)(random_tokens(seed, rows, length))


known.probe_table(
    qwen3=lambda program: run_model(program, QWEN3, 31),
    qwen25_tied=lambda program: run_model(program, QWEN25, 32, tie_word_embeddings=True),
    three_layers=lambda program: run_model(program, QWEN3, 33, num_hidden_layers=3),
    eleven_layers=lambda program: run_model(program, QWEN3, 34, length=2, num_hidden_layers=11),
    with_a_head_left_over=lambda program: run_model(
        program, QWEN3, 35, tie_word_embeddings=True, extra={"lm_head.weight": normals(350)(29, 12)}
    ),
    one_row=lambda program: run_model(program, QWEN3, 38, rows=1),
)
known.probe_table(mx.float16, half=lambda program: run_model(program, QWEN3, 36, mx.float16))


@known.probe()
def model_without_its_last_layer(program):
    """Return whether missing layer weights raise."""
    model = random_model(QWEN3, 37)
    weights = {name: w for name, w in model.weights.items() if not name.startswith("model.layers.1.")}
    return refusals(lambda given: program(ModelConfig.from_dict(model.config), given), [weights], KeyError)


@known.probe()
def model_without_its_head(program):
    """Return whether a missing head raises."""
    model = random_model(QWEN3, 39)
    config = ModelConfig.from_dict(model.config)
    return refusals(lambda given: program(config, given), [model.without("lm_head.weight").weights], KeyError)


@known.probe()
def model_called_twice(program):
    model = random_model(QWEN3, 41)
    called = program(ModelConfig.from_dict(model.config), model.weights)
    return called(random_tokens(41, 1, 3)), called(random_tokens(42, 2, 2))


@known.probe()
def model_of_other_shapes(program):
    """Return whether a table, then a final norm, that does not fit the config raises."""
    model = random_model(QWEN3, 40)
    config, grown = ModelConfig.from_dict(model.config), ("model.embed_tokens.weight", "model.norm.weight")
    cases = [model.with_weights(**{name: mx.concatenate([model.weights[name]] * 2)}).weights for name in grown]
    return refusals(lambda given: program(config, given), cases)


@known.sized("8 tokens, the embedded model, float32")
def sized(program):
    checkpoint = embedded_model()
    model = program(ModelConfig.from_dict(checkpoint.config), checkpoint.weights)
    tokens = random_tokens(1, 1, 8, vocab_size=2048)
    return lambda: model(tokens)


@known.accepted("operators-of-mlx")
class ModelOfOperators:
    def __init__(self, config, weights):
        self.config, self.table, self.norm = config, weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self.head = self.table if config.tie_word_embeddings else weights["lm_head.weight"]
        self.layers = [
            {name: weights[f"model.layers.{number}.{name}"] for name in needed(config)}
            for number in range(config.num_hidden_layers)
        ]
        hidden, inner = config.hidden_size, config.intermediate_size
        shapes = [(self.table, (config.vocab_size, hidden)), (self.norm, (hidden,))]
        for layer in self.layers:
            shapes += [(layer[f"{name}_layernorm.weight"], (hidden,)) for name in ("input", "post_attention")]
            shapes += [(layer[f"mlp.{name}_proj.weight"], (inner, hidden)) for name in ("gate", "up")]
            shapes += [(layer["mlp.down_proj.weight"], (hidden, inner))]
        if any(weight.shape != shape for weight, shape in shapes):
            raise ValueError("a weight does not fit the config")

    def __call__(self, tokens):
        x = mx.take(self.table, tokens, axis=0)
        for weights in self.layers:
            x = layer_of_operators(x, self.config, weights, "causal")
        return mx.fast.rms_norm(x, self.norm, self.config.rms_norm_eps) @ self.head.T


known.change(
    "one-layer-only",
    ("for layer in self.layers:", "for layer in self.layers[:1]:"),
    fact="only the first layer is run",
    question="How many layers does the config specify, and how often does your loop run?",
)
known.change(
    "layers-all-read-embeddings",
    ("layer(x,", "layer(self.embedding(tokens),"),
    fact="every layer reads the embeddings, and only the last layer's output is used",
    question="What does layer 1 read: the output of layer 0, or the input of layer 0?",
)
known.change(
    "one-layer-too-few",
    ("for layer in self.layers:", "for layer in self.layers[:-1]:"),
    fact="the last layer is not run",
    question="With two layers, which indices does your loop visit?",
)
known.change(
    "layers-counted-in-the-weights",
    ("range(config.num_hidden_layers)", 'range(sum(name.endswith("input_layernorm.weight") for name in weights))'),
    fact="the number of layers comes from the weights instead of from the config",
    question="If a file has lost its last layer, how would you notice?",
)
known.change(
    "last-weights-for-all",
    ('f"model.layers.{number}."', 'f"model.layers.{config.num_hidden_layers - 1}."'),
    fact="every layer has the weights of the last one",
    question="While you build the layers, how do you tell layer 0's weights from layer 1's?",
)
known.change(
    "first-weights-for-all",
    ('f"model.layers.{number}."', '"model.layers.0."'),
    fact="every layer has the weights of layer 0",
    question="Does the number in `model.layers.0.` change while your layers are built?",
)
known.change(
    "layers-sorted-as-words",
    ("range(config.num_hidden_layers)", "sorted(map(str, range(config.num_hidden_layers)))"),
    fact="the layers are sorted as strings: 0, 1, 10, 2",
    question='Does "10" come before or after "2"?',
)
known.change(
    "no-causal-mask",
    ('layer(x, mask="causal")', "layer(x)"),
    fact="the layers get no mask, so every token sees the later ones",
    question="Which tokens may the logits at position 0 depend on?",
)
known.change(
    "mask-in-first-layer-only",
    ('mask="causal"', 'mask="causal" if layer is self.layers[0] else None'),
    fact="only the first layer is masked",
    question="Through which layer could a token learn about a later one?",
)
known.change(
    "no-final-norm",
    ("x = self.norm(x)", ""),
    fact="the final norm is missing",
    question="Which weight of the model does your code never use?",
)
known.change(
    "norm-after-every-layer",
    ('layer(x, mask="causal")', 'self.norm(layer(x, mask="causal"))'),
    ("x = self.norm(x)", ""),
    fact="the final norm is applied after every layer",
    question="How many layers come after the norm called final?",
)
known.change(
    "always-tied",
    ("self.embedding.as_linear(x) if self.head is None else linear(x, self.head)", "self.embedding.as_linear(x)"),
    fact="the head is always the embedding table, even when the config does not tie them",
    question="What is lm_head.weight for?",
)
known.change(
    "head-wherever-there-is-one",
    ('None if config.tie_word_embeddings else weights["lm_head.weight"]', 'weights.get("lm_head.weight")'),
    fact="lm_head.weight is used whenever the weights contain it, even when the config ties the head to the table",
    question="What decides whether the head is tied: the config, or the contents of the file?",
)
known.change(
    "scaled-embeddings",
    ("for layer in self.layers:", "x *= x.shape[-1] ** 0.5\nfor layer in self.layers:"),
    fact="the embeddings are multiplied by sqrt(E) before the first layer",
    question="Some models do that. Does this one?",
)
known.change(
    "softmax-on-the-logits",
    ("return self.embedding", "return mx.softmax(self.embedding"),
    ("linear(x, self.head)", "linear(x, self.head), axis=-1)"),
    fact="a softmax over the vocabulary is applied to the logits",
    question="Are logits probabilities?",
)
known.change(
    "last-position-only",
    ("self.norm(x)", "self.norm(x)[:, -1]"),
    fact="only the last position's logits are returned",
    question="For tokens of 2 x 5, how many rows of logits does the docstring specify?",
)
known.change(
    "theta-default",
    ("(config, own)", '(ModelConfig(**vars(config) | {"rope_theta": 1000000}), own)'),
    fact="the theta of RoPE is 1000000, and the config's value is ignored",
    question="Does every layer receive your config unchanged?",
)
known.change(
    "final-eps-default",
    ('weights["model.norm.weight"], config.rms_norm_eps', 'weights["model.norm.weight"]'),
    fact="the final norm uses a fixed eps instead of the config's",
    question="Where does the final norm's eps come from?",
)
known.change(
    "q-k-norms-skipped",
    ("x = layer(", "layer.attention.q_norm = layer.attention.k_norm = None\nx = layer("),
    fact="the layers do not apply the norms of queries and keys",
    question="Which of a Qwen3 layer's weights do you not pass to your layers?",
)
known.change(
    "biases-skipped",
    ("x = layer(", "layer.attention.bq = layer.attention.bk = layer.attention.bv = None\nx = layer("),
    fact="the layers of Qwen2.5 do not add the biases of queries, keys and values",
    question="Which of a Qwen2.5 layer's weights do you not pass to your layers?",
)


@known.wrong(
    "head-dim-from-hidden",
    fact="head_dim is computed as hidden_size / num_attention_heads, in RoPE and in the scale",
    question="What is hidden_size / num_attention_heads in Qwen3-0.6B, and what does its config give as head_dim?",
)
class HeadDimFromHidden(ModelOfOperators):
    def __init__(self, config, weights):
        head_dim = config.hidden_size // config.num_attention_heads
        super().__init__(dataclasses.replace(config, head_dim=head_dim), weights)


known.change(
    "float32-result",
    ("self.norm(x)", "self.norm(x).astype(mx.float32)"),
    fact="the logits are float32 although the weights are not",
    question="Where does a float32 array enter your float16 computation?",
)
known.change(
    "head-always-its-own",
    ('None if config.tie_word_embeddings else weights["lm_head.weight"]', 'weights["lm_head.weight"]'),
    fact="lm_head.weight is looked up even when the config ties the head to the embedding table",
    question="What replaces lm_head.weight when the word embeddings are tied?",
)
known.change(
    "final-norm-first",
    ("x = self.norm(x)", ""),
    ("for layer in self.layers:", "x = self.norm(x)\nfor layer in self.layers:"),
    fact="the final norm is applied to the embeddings, before the first layer",
    question="What is the last operation on the residual stream before the logits?",
)
known.change(
    "masked-only-alone",
    ('mask="causal"', 'mask="causal" if len(tokens) == 1 else None'),
    fact="the layers get the mask only when N = 1",
    question="Two sequences share a batch. Which tokens may the first position of the second one see?",
)
known.change(
    "layers-without-numbers",
    ('f"model.layers.{number}."', '"model.layers.1."'),
    fact="every layer has the weights of layer 1",
    question="Does the number in `model.layers.1.` change while your layers are built?",
)
known.change(
    "prefix-without-its-dot",
    ('f"model.layers.{number}."', 'f"model.layers.{number}"'),
    ("name.removeprefix(prefix)", 'name.split(".", 3)[-1]'),
    fact="layer 1 has the weights of layer 10, whose names also begin with `model.layers.1`",
    question="In a model of eleven layers, which weights have names that begin with `model.layers.1`?",
)
known.change(
    "layers-read-once",
    (
        """
        self.layers = []
        for number in range(config.num_hidden_layers):
            prefix = f"model.layers.{number}."
            own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
            self.layers.append(Qwen3TransformerBlock(config, own))
        """,
        """
        def own(prefix):
            return {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}

        prefixes = (f"model.layers.{number}." for number in range(config.num_hidden_layers))
        self.layers = (Qwen3TransformerBlock(config, own(prefix)) for prefix in prefixes)
        """,
    ),
    fact="the layers are a generator, which builds them at the first call and is empty at the second",
    question="When does a generator compute its items, and how often can you iterate over it?",
)
known.change(
    "missing-head-is-the-table",
    ('weights["lm_head.weight"]', 'weights.get("lm_head.weight", weights["model.embed_tokens.weight"])'),
    fact="the embedding table replaces a missing lm_head.weight, although the config does not tie them",
    question="A file of an untied model has lost its head. How would you notice?",
)
known.change(
    "table-of-any-shape",
    ("config.vocab_size, config.hidden_size, weights", '*weights["model.embed_tokens.weight"].shape, weights'),
    fact="the shape of the embedding is not compared with the config",
    question="The config specifies 29 tokens, and the table has 58 rows. What should happen, and when?",
)
known.change(
    "final-norm-of-any-shape",
    ("RMSNorm(config.hidden_size,", 'RMSNorm(weights["model.norm.weight"].size,'),
    fact="the shape of the final norm's weight is not compared with the config",
    question="The config specifies 12 features, and the final norm has 24. What should happen, and when?",
)
known.together("last-weights-for-all", "one-layer-only", makes="layers-all-read-embeddings")
known.together("layers-all-read-embeddings", "first-weights-for-all", makes="one-layer-only")


@known.accepted("mask-as-an-array")
class MaskAsAnArray(Qwen3Model):
    def __call__(self, tokens):
        x = self.embedding(tokens)
        mask = causal(x.shape[1], x.shape[1], x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        return self.embedding.as_linear(x) if self.head is None else linear(x, self.head)

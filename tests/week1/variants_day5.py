"""Day 5's known programs: the mistakes that learners make, right programs in other words, and the probes."""

import dataclasses

import mlx.core as mx
import mlx.nn as nn

from tiny_llm_course.checks import causal, normals
from tiny_llm_course.packages import load_solution
from tiny_llm_course.reference_model import QWEN3, QWEN25, random_model, random_tokens
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution.basics import linear  # noqa: E402
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.embedding import Embedding  # noqa: E402
from tiny_llm_solution.layer_norm import RMSNorm  # noqa: E402
from tiny_llm_solution.qwen3 import Qwen3Model, Qwen3TransformerBlock  # noqa: E402

day = Variants()

# 1.5.1 embedding


def table(seed, dtype=mx.float32, rows=7, columns=5):
    return normals(seed, dtype)(rows, columns)


@day.probe("1.5.1")
def look_up(program):
    return program(7, 5, table(11))(random_tokens(11, 2, 3, vocab_size=7))


@day.probe("1.5.1")
def look_up_first_and_last(program):
    return program(7, 5, table(12))(mx.array([0, 6]))


@day.probe("1.5.1")
def compare_with_rows(program):
    return program(7, 5, table(13)).as_linear(normals(130)(2, 3, 5))


@day.probe("1.5.1")
def compare_with_rows_square(program):
    return program(5, 5, table(14, rows=5)).as_linear(normals(140)(2, 5))


@day.probe("1.5.1", mx.float16)
def embedding_half(program):
    layer = program(7, 5, table(15, mx.float16))
    return layer(random_tokens(15, 2, 3, vocab_size=7)), layer.as_linear(normals(150, mx.float16)(2, 5))


@day.wrong(
    "1.5.1", "scaled-by-root-E",
    fact="the vectors that are looked up are multiplied by sqrt(E)",
    question="Some models do that. Does this task's docstring?",
)  # fmt: skip
class ScaledByRootE(Embedding):
    def __call__(self, tokens):
        return super().__call__(tokens) * self.weight.shape[1] ** 0.5


@day.wrong(
    "1.5.1", "ids-from-one",
    fact="each token gets the row before its own, as if ids began at 1",
    question="Which row belongs to token 0?",
)  # fmt: skip
class IdsFromOne(Embedding):
    def __call__(self, tokens):
        return mx.concatenate([self.weight[-1:], self.weight[:-1]])[tokens]


@day.wrong(
    "1.5.1", "flattened",
    fact="the tokens' leading dimensions are flattened into one and not restored",
    question="For tokens of 2 x 3, which shape should come out?",
)  # fmt: skip
class FlattenedTokens(Embedding):
    def __call__(self, tokens):
        return super().__call__(tokens).reshape(-1, self.weight.shape[1])


@day.wrong(
    "1.5.1", "float32-lookup",
    fact="looking up gives float32, whatever the table's dtype is",
    question="If you select rows by a product, which dtype has the array that selects them?",
)  # fmt: skip
class Float32Lookup(Embedding):
    def __call__(self, tokens):
        return mx.eye(self.weight.shape[0])[tokens] @ self.weight


@day.wrong(
    "1.5.1", "reshaped-table",
    fact="as_linear reshapes the table to E x V instead of transposing it",
    question="After that reshape, does a column still hold one token's vector?",
)  # fmt: skip
class ReshapedTable(Embedding):
    def as_linear(self, x):
        return x @ self.weight.reshape(self.weight.shape[1], -1)


@day.wrong(
    "1.5.1", "not-transposed-when-square",
    fact="as_linear transposes the table only if the shapes would not fit otherwise",
    question="With V = E both products have the same shape. Which of the two compares x with rows?",
)  # fmt: skip
class NotTransposedWhenSquare(Embedding):
    def as_linear(self, x):
        return x @ (self.weight if self.weight.shape[0] == self.weight.shape[1] else self.weight.T)


@day.wrong(
    "1.5.1", "scores-over-root-E",
    fact="as_linear divides the dot products by sqrt(E)",
    question="Attention scales its scores. Does the output head?",
)  # fmt: skip
class ScoresOverRootE(Embedding):
    def as_linear(self, x):
        return super().as_linear(x) * self.weight.shape[1] ** -0.5


@day.wrong(
    "1.5.1", "cosines",
    fact="as_linear compares directions only: the table's rows are divided by their lengths",
    question="Should a token with a long vector score as high as one with a short vector?",
)  # fmt: skip
class Cosines(Embedding):
    def as_linear(self, x):
        return linear(x, self.weight / mx.linalg.norm(self.weight, axis=1, keepdims=True))


@day.wrong(
    "1.5.1", "probabilities",
    fact="as_linear ends with a softmax over the vocabulary",
    question="Does the docstring ask for dot products, or for weights?",
)  # fmt: skip
class Probabilities(Embedding):
    def as_linear(self, x):
        return mx.softmax(super().as_linear(x), axis=-1)


@day.accepted("1.5.1", "take-and-einsum")
class TakeAndEinsum:
    def __init__(self, vocab_size, embedding_dim, weight):
        if list(weight.shape) != [vocab_size, embedding_dim]:
            raise ValueError("the table does not fit")
        self.rows = weight

    def __call__(self, tokens):
        return mx.take(self.rows, tokens, axis=0)

    def as_linear(self, x):
        return mx.einsum("...e,ve->...v", x, self.rows)


@day.accepted("1.5.1", "one-hot")
class OneHot(Embedding):
    def __call__(self, tokens):
        ids = mx.arange(self.weight.shape[0])
        return (tokens[..., None] == ids).astype(self.weight.dtype) @ self.weight

    def as_linear(self, x):
        return (self.weight @ x[..., None]).squeeze(-1)


# 1.5.2 transformer block


def exchanged(weights, one, other):
    """The weights with two parts of their names exchanged."""
    words = {one: other, other: one}
    return {".".join(words.get(word, word) for word in name.split(".")): w for name, w in weights.items()}


def run_block(program, base, seed, mask=None, dtype=mx.float32):
    model = random_model(base, seed, dtype)
    x = normals(seed, dtype)(2, 5, model.config["hidden_size"])
    return program(ModelConfig.from_dict(model.config), model.layer(0))(x, mask), x


@day.probe("1.5.2")
def block_qwen3(program):
    return run_block(program, QWEN3, 21)


@day.probe("1.5.2")
def block_qwen25(program):
    return run_block(program, QWEN25, 22)


@day.probe("1.5.2")
def block_causal(program):
    return run_block(program, QWEN3, 23, "causal")


@day.probe("1.5.2")
def block_finite_mask(program):
    return run_block(program, QWEN3, 24, normals(240)(5, 5))


@day.probe("1.5.2", mx.float16)
def block_half(program):
    return run_block(program, QWEN3, 25, dtype=mx.float16)


@day.probe("1.5.2")
def block_without_a_norm(program):
    """0 if a weight that is missing is noticed, 1 if not."""
    model = random_model(QWEN3, 26).without("model.layers.0.self_attn.q_norm.weight")
    try:
        program(ModelConfig.from_dict(model.config), model.layer(0))
    except KeyError:
        return mx.array(0.0)
    return mx.array(1.0)


def refuses(program, length, allowed):
    """Whether a layer takes so many tokens under a config that allows so many: 1 if not. Nothing is computed: slow."""
    model = random_model(QWEN3, 27, num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=allowed)
    layer = program(ModelConfig.from_dict(model.config), model.layer(0))
    try:
        layer(normals(27)(1, length, model.config["hidden_size"]), "causal")
    except ValueError:
        return mx.array(1.0)
    return mx.array(0.0)


@day.probe("1.5.2")
def block_longest_sequence(program):
    return refuses(program, 2049, 2049)


@day.probe("1.5.2")
def block_one_token_too_many(program):
    return refuses(program, 5, 4)


class Block(Qwen3TransformerBlock):
    """The solution in steps that a mistake can replace one at a time."""

    def attend(self, x, mask):
        return self.attention(self.input_norm(x), mask)

    def think(self, h):
        return self.mlp(self.mlp_norm(h))

    def __call__(self, x, mask=None):
        h = x + self.attend(x, mask)
        return h + self.think(h)


@day.wrong(
    "1.5.2", "mlp-reads-x",
    fact="the MLP reads what entered the layer, not what attention left",
    question="Of the two steps, what does the second one start from?",
)  # fmt: skip
class MlpReadsX(Block):
    def __call__(self, x, mask=None):
        return x + self.attend(x, mask) + self.think(x)


@day.wrong(
    "1.5.2", "norms-exchanged",
    fact="the two norms of the layer are exchanged",
    question="Which of the two names says that its norm comes after attention?",
)  # fmt: skip
class NormsExchanged(Block):
    def __init__(self, config, weights):
        super().__init__(config, exchanged(weights, "input_layernorm", "post_attention_layernorm"))


@day.wrong(
    "1.5.2", "one-norm-for-both",
    fact="the input norm stands before attention and before the MLP",
    question="How many norms' weights does a layer bring, and how many are used?",
)  # fmt: skip
class OneNormForBoth(Block):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.mlp_norm = self.input_norm


@day.wrong(
    "1.5.2", "no-residual-at-attention",
    fact="attention's output replaces the stream instead of being added to it",
    question="If wo were zeros, what should be left after the first step?",
)  # fmt: skip
class NoResidualAtAttention(Block):
    def __call__(self, x, mask=None):
        h = self.attend(x, mask)
        return h + self.think(h)


@day.wrong(
    "1.5.2", "no-residual-at-mlp",
    fact="the MLP's output replaces the stream instead of being added to it",
    question="If w_down were zeros, what should be left after the second step?",
)  # fmt: skip
class NoResidualAtMlp(Block):
    def __call__(self, x, mask=None):
        return self.think(x + self.attend(x, mask))


@day.wrong(
    "1.5.2", "no-residuals",
    fact="neither step adds the stream: attention feeds the MLP and that is all",
    question="What should a layer whose wo and w_down are zeros do to the stream?",
)  # fmt: skip
class NoResiduals(Block):
    def __call__(self, x, mask=None):
        return self.think(self.attend(x, mask))


@day.wrong(
    "1.5.2", "mlp-added-to-x",
    fact="the MLP's output is added to what entered the layer, so that attention's own share is lost",
    question="What does h hold that x does not, and where does it go?",
)  # fmt: skip
class MlpAddedToX(Block):
    def __call__(self, x, mask=None):
        return x + self.think(x + self.attend(x, mask))


@day.wrong(
    "1.5.2", "post-norm",
    fact="each norm is applied after its step and sum, not before the step",
    question="Is what runs from layer to layer normalised, or a copy of it?",
)  # fmt: skip
class PostNorm(Block):
    def __call__(self, x, mask=None):
        h = self.input_norm(x + self.attention(x, mask))
        return self.mlp_norm(h + self.mlp(h))


@day.wrong(
    "1.5.2", "residual-of-the-norm",
    fact="each step is added to the normalised copy instead of to the stream itself",
    question="Is `x` in your sum still what entered the layer?",
)  # fmt: skip
class ResidualOfTheNorm(Block):
    def __call__(self, x, mask=None):
        x = self.input_norm(x)
        h = self.mlp_norm(x + self.attention(x, mask))
        return h + self.mlp(h)


@day.wrong(
    "1.5.2", "no-norms",
    fact="attention and MLP read the stream itself, not a normalised copy",
    question="Which weights of the layer does your program never read?",
)  # fmt: skip
class NoNorms(Block):
    def __call__(self, x, mask=None):
        h = x + self.attention(x, mask)
        return h + self.mlp(h)


@day.wrong(
    "1.5.2", "in-place",
    fact="the steps are added in place, so that the caller's array changes",
    question="After layer(x), what does the caller find in x?",
)  # fmt: skip
class InPlace(Block):
    def __call__(self, x, mask=None):
        x += self.attend(x, mask)
        x += self.think(x)
        return x


@day.wrong(
    "1.5.2", "mask-ignored",
    fact="the mask does not reach the attention",
    question="Where does `mask` go after __call__ has received it?",
)  # fmt: skip
class MaskIgnored(Block):
    def attend(self, x, mask):
        return self.attention(self.input_norm(x))


@day.wrong(
    "1.5.2", "always-causal",
    fact="the mask is always causal, whatever the caller passes",
    question="What should a layer without a mask let the first token see?",
)  # fmt: skip
class AlwaysCausal(Block):
    def attend(self, x, mask):
        return self.attention(self.input_norm(x), "causal")


@day.wrong(
    "1.5.2", "gate-and-up-exchanged",
    fact="the MLP gets up_proj as its gate and gate_proj as its up projection",
    question="In which order does Qwen3MLP take its three weights?",
)  # fmt: skip
class GateAndUpExchanged(Block):
    def __init__(self, config, weights):
        super().__init__(config, exchanged(weights, "gate_proj", "up_proj"))


@day.wrong(
    "1.5.2", "key-and-value-exchanged",
    fact="the key and the value projection are exchanged",
    question="In which order does Qwen3MultiHeadAttention take its four matrices?",
)  # fmt: skip
class KeyAndValueExchanged(Block):
    def __init__(self, config, weights):
        super().__init__(config, exchanged(weights, "k_proj", "v_proj"))


@day.wrong(
    "1.5.2", "q-and-k-norm-exchanged",
    fact="the norm of the queries and the norm of the keys are exchanged",
    question="Both norms' weights have D numbers. Which one belongs to the queries?",
)  # fmt: skip
class QAndKNormExchanged(Block):
    def __init__(self, config, weights):
        super().__init__(config, exchanged(weights, "q_norm", "k_norm"))


@day.wrong(
    "1.5.2", "q-k-norms-skipped",
    fact="the norms of queries and keys are not passed to the attention",
    question="Which of a Qwen3 layer's weights does your attention not receive?",
)  # fmt: skip
class QKNormsSkipped(Block):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.attention.q_norm = self.attention.k_norm = None


@day.wrong(
    "1.5.2", "biases-skipped",
    fact="the biases of Qwen2.5's queries, keys and values are not passed to the attention",
    question="Which of a Qwen2.5 layer's weights does your attention not receive?",
)  # fmt: skip
class BiasesSkipped(Block):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.attention.bq = self.attention.bk = self.attention.bv = None


class Forgiving(dict[str, mx.array]):
    """What `weights.get` makes of a norm or a bias that is missing: none at all."""

    def __missing__(self, name):
        if name.endswith(("_proj.weight", "layernorm.weight")):
            raise KeyError(name)


@day.wrong(
    "1.5.2", "missing-is-none",
    fact="a q/k norm or bias that is missing from the weights is taken for one that the model does not have",
    question="What should happen to a Qwen3 checkpoint that lost q_norm: wrong text, or an error?",
)  # fmt: skip
class MissingIsNone(Block):
    def __init__(self, config, weights):
        super().__init__(config, Forgiving(weights))


@day.wrong(
    "1.5.2", "theta-default",
    fact="the theta of RoPE is 1000000, whatever the config says",
    question="Which of the config's entries does your attention not receive?",
)  # fmt: skip
class BlockThetaDefault(Block):
    def __init__(self, config, weights):
        super().__init__(dataclasses.replace(config, rope_theta=1000000.0), weights)


@day.wrong(
    "1.5.2", "positions-of-a-fixed-number",
    fact="the layer has room for some fixed number of tokens, and a longer sequence that the config allows is refused",
    question="Which of the config's entries says for how many positions a table is needed?",
)  # fmt: skip
class PositionsOfAFixedNumber(Block):
    def __init__(self, config, weights):
        super().__init__(dataclasses.replace(config, max_position_embeddings=2048), weights)


@day.wrong(
    "1.5.2", "room-for-more",
    fact="the layer has room for more tokens than the config allows",
    question="Which of the config's entries does your attention not receive?",
)  # fmt: skip
class RoomForMore(Block):
    def __init__(self, config, weights):
        super().__init__(dataclasses.replace(config, max_position_embeddings=32768), weights)


@day.wrong(
    "1.5.2", "eps-default",
    fact="no norm of the layer gets the config's eps",
    question="How many norms does a layer hold, and which eps do they get?",
)  # fmt: skip
class BlockEpsDefault(Block):
    def __init__(self, config, weights):
        super().__init__(dataclasses.replace(config, rms_norm_eps=1e-6), weights)


@day.wrong(
    "1.5.2", "eps-default-in-two-norms",
    fact="the norms before attention and MLP have an eps of their own, not the config's",
    question="Which eps does RMSNorm take if it is given none?",
)  # fmt: skip
class TwoEpsDefault(Block):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.input_norm.eps = self.mlp_norm.eps = 1e-5


@day.wrong(
    "1.5.2", "eps-default-in-attention",
    fact="the norms of queries and keys have an eps of their own, not the config's",
    question="Which eps does Qwen3MultiHeadAttention take if it is given none?",
)  # fmt: skip
class AttentionEpsDefault(Block):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.attention.eps = 1e-6


@day.wrong(
    "1.5.2", "float32-result",
    fact="the result is float32 although the stream is not",
    question="Which of the arrays that are added to the stream is float32?",
)  # fmt: skip
class BlockFloat32(Block):
    def __call__(self, x, mask=None):
        return super().__call__(x, mask).astype(mx.float32)


def by_operators(x, config, w, mask=None, dims=None):
    """A layer of MLX's operators; `dims` is a wrong head_dim for RoPE and the scale."""
    eps, width = config.rms_norm_eps, config.head_dim
    dims = width if dims is None else dims
    normed = mx.fast.rms_norm(x, w["input_layernorm.weight"], eps)
    heads = {}
    for name, number in (("q", config.num_attention_heads), *((n, config.num_key_value_heads) for n in "kv")):
        y = linear(normed, w[f"self_attn.{name}_proj.weight"], w.get(f"self_attn.{name}_proj.bias"))
        y = y.reshape(*x.shape[:2], number, width)
        if config.model_type == "qwen3" and name != "v":
            y = mx.fast.rms_norm(y, w[f"self_attn.{name}_norm.weight"], eps)
        y = y.swapaxes(1, 2)
        if name != "v":
            y = mx.fast.rope(y, dims, traditional=False, base=config.rope_theta, scale=1.0, offset=0)
        heads[name] = y
    y = mx.fast.scaled_dot_product_attention(heads["q"], heads["k"], heads["v"], scale=dims**-0.5, mask=mask)
    h = x + linear(y.swapaxes(1, 2).flatten(2), w["self_attn.o_proj.weight"])
    normed = mx.fast.rms_norm(h, w["post_attention_layernorm.weight"], eps)
    gate, up = (linear(normed, w[f"mlp.{name}_proj.weight"]) for name in ("gate", "up"))
    return h + linear(nn.silu(gate) * up, w["mlp.down_proj.weight"])


def needed(config):
    """The names of a layer's weights, by architecture."""
    names = [f"self_attn.{n}_proj.weight" for n in "qkvo"] + [f"mlp.{n}_proj.weight" for n in ("gate", "up", "down")]
    names += ["input_layernorm.weight", "post_attention_layernorm.weight"]
    if config.model_type == "qwen3":
        return [*names, "self_attn.q_norm.weight", "self_attn.k_norm.weight"]
    return names + [f"self_attn.{n}_proj.bias" for n in "qkv"]


@day.accepted("1.5.2", "operators-of-mlx")
class OperatorsOfMlx:
    def __init__(self, config, weights):
        self.config, self.weights = config, {name: weights[name] for name in needed(config)}

    def __call__(self, x, mask=None):
        if x.shape[1] > self.config.max_position_embeddings:
            raise ValueError(
                f"{x.shape[1]} tokens, but max_position_embeddings is {self.config.max_position_embeddings}"
            )
        return by_operators(x, self.config, self.weights, mask)


@day.accepted("1.5.2", "list-of-steps")
class ListOfSteps(Qwen3TransformerBlock):
    def __call__(self, x, mask=None):
        for norm, step in [(self.input_norm, lambda y: self.attention(y, mask)), (self.mlp_norm, self.mlp)]:
            x = step(norm(x)) + x
        return x


# 1.5.3 the model


def run_model(program, base, seed, dtype=mx.float32, length=5, extra=None, **changes):
    model = random_model(base, seed, dtype, **changes).with_weights(**(extra or {}))
    return program(ModelConfig.from_dict(model.config), model.weights)(random_tokens(seed, 2, length))


@day.probe("1.5.3")
def model_qwen3(program):
    return run_model(program, QWEN3, 31)


@day.probe("1.5.3")
def model_qwen25_tied(program):
    return run_model(program, QWEN25, 32, tie_word_embeddings=True)


@day.probe("1.5.3")
def model_three_layers(program):
    return run_model(program, QWEN3, 33, num_hidden_layers=3)


@day.probe("1.5.3")
def model_eleven_layers(program):
    return run_model(program, QWEN3, 34, length=2, num_hidden_layers=11)


@day.probe("1.5.3")
def model_with_a_head_left_over(program):
    return run_model(program, QWEN3, 35, tie_word_embeddings=True, extra={"lm_head.weight": normals(350)(29, 12)})


@day.probe("1.5.3", mx.float16)
def model_half(program):
    return run_model(program, QWEN3, 36, mx.float16)


@day.probe("1.5.3")
def model_without_its_last_layer(program):
    """0 if it is noticed that a layer's weights are missing, 1 if not."""
    model = random_model(QWEN3, 37)
    weights = {name: w for name, w in model.weights.items() if not name.startswith("model.layers.1.")}
    try:
        program(ModelConfig.from_dict(model.config), weights)
    except KeyError:
        return mx.array(0.0)
    return mx.array(1.0)


class Model(Qwen3Model):
    """The solution in steps that a mistake can replace one at a time."""

    def embed(self, tokens):
        return self.embedding(tokens)

    def run_layers(self, x):
        for layer in self.layers:
            x = layer(x, "causal")
        return x

    def score(self, x):
        return self.embedding.as_linear(x) if self.head is None else linear(x, self.head)

    def __call__(self, tokens):
        return self.score(self.norm(self.run_layers(self.embed(tokens))))


@day.wrong(
    "1.5.3", "one-layer-only",
    fact="only the first layer is run",
    question="How many layers does the config ask for, and how often does your loop run?",
)  # fmt: skip
class OneLayerOnly(Model):
    def run_layers(self, x):
        return self.layers[0](x, "causal")


@day.wrong(
    "1.5.3", "layers-all-read-embeddings",
    fact="every layer reads the embeddings, and the last one's output is used",
    question="What does layer 1 read: the output of layer 0, or what layer 0 read?",
)  # fmt: skip
class LayersAllReadEmbeddings(Model):
    def run_layers(self, x):
        return self.layers[-1](x, "causal")


@day.wrong(
    "1.5.3", "one-layer-too-few",
    fact="the last layer is not run",
    question="With two layers, which numbers does your loop count through?",
)  # fmt: skip
class OneLayerTooFew(Model):
    def run_layers(self, x):
        for layer in self.layers[:-1]:
            x = layer(x, "causal")
        return x


@day.wrong(
    "1.5.3", "layers-counted-in-the-weights",
    fact="there are as many layers as the weights hold, however many the config says",
    question="If a file lost its last layer, what tells you that it should be there?",
)  # fmt: skip
class LayersCountedInTheWeights(Model):
    def __init__(self, config, weights):
        numbers = {name.split(".")[2] for name in weights if name.startswith("model.layers.")}
        super().__init__(dataclasses.replace(config, num_hidden_layers=len(numbers)), weights)


@day.wrong(
    "1.5.3", "layers-in-reverse",
    fact="the layers are run from the last to the first",
    question="Which layer reads the embeddings?",
)  # fmt: skip
class LayersInReverse(Model):
    def run_layers(self, x):
        for layer in reversed(self.layers):
            x = layer(x, "causal")
        return x


@day.wrong(
    "1.5.3", "last-weights-for-all",
    fact="every layer has the weights of the last one",
    question="While the layers are built, what tells layer 0's weights from those of layer 1?",
)  # fmt: skip
class LastWeightsForAll(Model):
    def run_layers(self, x):
        for _ in self.layers:
            x = self.layers[-1](x, "causal")
        return x


@day.wrong(
    "1.5.3", "first-weights-for-all",
    fact="every layer has the weights of layer 0",
    question="Does the number in `model.layers.0.` change while your layers are built?",
)  # fmt: skip
class FirstWeightsForAll(Model):
    def run_layers(self, x):
        for _ in self.layers:
            x = self.layers[0](x, "causal")
        return x


@day.wrong(
    "1.5.3", "layers-sorted-as-words",
    fact="the layers are in the order of their numbers written as words: 0, 1, 10, 2",
    question='Does "10" come before or after "2"?',
)  # fmt: skip
class LayersSortedAsWords(Model):
    def run_layers(self, x):
        for number in sorted(map(str, range(len(self.layers)))):
            x = self.layers[int(number)](x, "causal")
        return x


@day.wrong(
    "1.5.3", "no-causal-mask",
    fact="no mask is given to the layers, so that every token sees the later ones",
    question="Which tokens may the logits at position 0 depend on?",
)  # fmt: skip
class NoCausalMask(Model):
    def run_layers(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@day.wrong(
    "1.5.3", "mask-in-first-layer-only",
    fact="only the first layer is masked",
    question="Where could a token of the second layer learn of a later one?",
)  # fmt: skip
class MaskInFirstLayerOnly(Model):
    def run_layers(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x, None if number else "causal")
        return x


@day.wrong(
    "1.5.3", "no-final-norm",
    fact="the final norm is left out",
    question="Which weight of the model is still unused?",
)  # fmt: skip
class NoFinalNorm(Model):
    def __call__(self, tokens):
        return self.score(self.run_layers(self.embed(tokens)))


@day.wrong(
    "1.5.3", "norm-after-every-layer",
    fact="the final norm is applied after every layer",
    question="How many layers come after the one called final?",
)  # fmt: skip
class NormAfterEveryLayer(Model):
    def __call__(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = self.norm(layer(x, "causal"))
        return self.score(x)


@day.wrong(
    "1.5.3", "always-tied",
    fact="the head is always the embedding's table, also where the config does not tie them",
    question="What is lm_head.weight for?",
)  # fmt: skip
class AlwaysTied(Model):
    def score(self, x):
        return self.embedding.as_linear(x)


@day.wrong(
    "1.5.3", "head-wherever-there-is-one",
    fact="lm_head.weight is used wherever the weights hold one, also where the config ties the head to the table",
    question="Who decides whether the head is tied: the config, or what happens to be in the file?",
)  # fmt: skip
class HeadWhereverThereIsOne(Model):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.head = weights.get("lm_head.weight")


@day.wrong(
    "1.5.3", "scaled-embeddings",
    fact="the embeddings are multiplied by sqrt(E) before the first layer",
    question="Some models do that. Does this one?",
)  # fmt: skip
class ScaledEmbeddings(Model):
    def embed(self, tokens):
        x = super().embed(tokens)
        return x * x.shape[-1] ** 0.5


@day.wrong(
    "1.5.3", "softmax-on-the-logits",
    fact="a softmax over the vocabulary is applied to the logits",
    question="Are logits probabilities?",
)  # fmt: skip
class SoftmaxOnTheLogits(Model):
    def score(self, x):
        return mx.softmax(super().score(x), axis=-1)


@day.wrong(
    "1.5.3", "last-position-only",
    fact="only the last position's logits are returned",
    question="For tokens of 2 x 5, how many rows of logits are asked for?",
)  # fmt: skip
class LastPositionOnly(Model):
    def __call__(self, tokens):
        return super().__call__(tokens)[:, -1]


@day.wrong(
    "1.5.3", "theta-default",
    fact="the theta of RoPE is 1000000, whatever the config says",
    question="Does every layer receive your config as it came?",
)  # fmt: skip
class ModelThetaDefault(Model):
    def __init__(self, config, weights):
        super().__init__(dataclasses.replace(config, rope_theta=1000000.0), weights)


@day.wrong(
    "1.5.3", "final-eps-default",
    fact="the final norm has an eps of its own, not the config's",
    question="Where does the final norm's eps come from?",
)  # fmt: skip
class FinalEpsDefault(Model):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.norm = RMSNorm(config.hidden_size, weights["model.norm.weight"])


@day.wrong(
    "1.5.3", "q-k-norms-skipped",
    fact="the layers work without the norms of queries and keys",
    question="Which of a Qwen3 layer's weights do your layers not receive?",
)  # fmt: skip
class ModelQKNormsSkipped(Model):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        for layer in self.layers:
            layer.attention.q_norm = layer.attention.k_norm = None


@day.wrong(
    "1.5.3", "biases-skipped",
    fact="the layers of Qwen2.5 work without the biases of queries, keys and values",
    question="Which of a Qwen2.5 layer's weights do your layers not receive?",
)  # fmt: skip
class ModelBiasesSkipped(Model):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        for layer in self.layers:
            layer.attention.bq = layer.attention.bk = layer.attention.bv = None


def layer_weights(weights, number):
    prefix = f"model.layers.{number}."
    return {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}


@day.wrong(
    "1.5.3", "head-dim-from-hidden",
    fact="hidden_size / num_attention_heads is taken for head_dim, in RoPE and in the scale",
    question="What is hidden_size / num_attention_heads in Qwen3-0.6B, and what does its config say head_dim is?",
)  # fmt: skip
class HeadDimFromHidden(Model):
    def __init__(self, config, weights):
        super().__init__(config, weights)
        self.config, self.weights = config, weights

    def run_layers(self, x):
        dims = self.config.hidden_size // self.config.num_attention_heads
        for number in range(len(self.layers)):
            x = by_operators(x, self.config, layer_weights(self.weights, number), "causal", dims)
        return x


@day.wrong(
    "1.5.3", "float32-result",
    fact="the logits are float32 although the weights are not",
    question="Where do your float16 weights meet a float32 number?",
)  # fmt: skip
class ModelFloat32(Model):
    def __call__(self, tokens):
        return super().__call__(tokens).astype(mx.float32)


@day.accepted("1.5.3", "operators-of-mlx")
class ModelOfOperators:
    def __init__(self, config, weights):
        self.config, self.table, self.norm = config, weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self.head = self.table if config.tie_word_embeddings else weights["lm_head.weight"]
        self.layers = [
            {name: weights[f"model.layers.{number}.{name}"] for name in needed(config)}
            for number in range(config.num_hidden_layers)
        ]

    def __call__(self, tokens):
        x = mx.take(self.table, tokens, axis=0)
        for weights in self.layers:
            x = by_operators(x, self.config, weights, "causal")
        return mx.fast.rms_norm(x, self.norm, self.config.rms_norm_eps) @ self.head.T


@day.accepted("1.5.3", "mask-as-an-array")
class MaskAsAnArray(Model):
    def run_layers(self, x):
        mask = causal(x.shape[1], x.shape[1], x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        return x

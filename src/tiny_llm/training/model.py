"""The one decoder as a function of its weights: training differentiates the model that serving loads. Given."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx

from ..backward.layers import linear_vjp, rms_norm_vjp
from ..basics import linear
from ..config import ModelConfig
from ..dataset.loss import cross_entropy
from ..dataset.packing import Rows, document_mask
from ..embedding import Embedding
from ..layer_norm import RMSNorm
from ..positional_encoding import rotation_angles
from ..qwen3_cached.decoder import Decoder, SwiGLU
from ..qwen3_cached.parts import Dense, Projection

Params = dict[str, mx.array]  # weights by the names of a checkpoint; gradients have the same keys
NormFunction = Callable[[mx.array, mx.array], mx.array]  # of x and the weight

HIDDEN = -1e30  # the score of a hidden key: finite, so that a fully masked row has uniform weights instead of NaN


@mx.custom_function
def trainable_linear(x: mx.array, w: mx.array) -> mx.array:
    """Compute `linear`; its gradients are those of `linear_vjp`, without MLX's copies of transposed matrices."""
    return linear(x, w)


@trainable_linear.vjp
def _(inputs: tuple[mx.array, mx.array], dy: mx.array, _: mx.array) -> tuple[mx.array, mx.array]:
    return linear_vjp(*inputs, dy)


@functools.cache
def trainable_norm(eps: float) -> NormFunction:
    """Return the function of x and weight that computes `RMSNorm`; its gradients are those of `rms_norm_vjp`."""

    @mx.custom_function
    def norm(x: mx.array, weight: mx.array) -> mx.array:
        return RMSNorm(weight.size, weight, eps)(x)

    @norm.vjp
    def _(inputs: tuple[mx.array, mx.array], dy: mx.array, _: mx.array) -> tuple[mx.array, mx.array]:
        return rms_norm_vjp(*inputs, eps, dy)

    return norm  # type: ignore[return-value]


def swiglu(gate: mx.array, up: mx.array) -> mx.array:
    """Return silu(gate) * up, of operations whose gradients are cheap: `silu` itself has a branch."""
    return gate * mx.sigmoid(gate) * up


def attend(query: mx.array, key: mx.array, value: mx.array, mask: mx.array) -> mx.array:
    """Return the attention of N x L x H x D queries to N x L x H_kv x D keys and values, N x L x H x D."""
    query, key, value = (a.swapaxes(1, 2) for a in (query, key, value))
    count, kv_heads, length, dims = key.shape
    # The query heads of a group become rows of one matrix: one product per key-value head, and no copies of keys.
    grouped = (query * dims**-0.5).reshape(count, kv_heads, -1, dims)  # N x H_kv x (G * L) x D: scaled while small
    scores = (grouped @ key.swapaxes(-1, -2)).reshape(count, -1, length, length)  # N x H x L x L
    # Adding a mask has no backward pass, and mx.compile computes it once for all layers.
    weights = mx.softmax(scores + mx.where(mask, 0.0, HIDDEN), axis=-1).reshape(count, kv_heads, -1, length)
    attended: mx.array = (weights @ value).reshape(count, -1, length, dims)  # N x H x L x D
    return attended.swapaxes(1, 2)


class Operators(NamedTuple):
    """What the layers of a model compute with, besides matrix products."""

    norm: Callable[[float], NormFunction]  # of eps
    swiglu: Callable[[mx.array, mx.array], mx.array]  # of gate and up
    attend: Callable[[mx.array, mx.array, mx.array, mx.array], mx.array]  # of queries, keys, values and the mask


ARRAYS = Operators(trainable_norm, swiglu, attend)


class TrainableEmbedding(Embedding):
    """An embedding whose head is a `trainable_linear`."""

    def as_linear(self, x: mx.array) -> mx.array:
        """Return the dot product with every row of the table."""
        return trainable_linear(x, self.weight)  # type: ignore[return-value]


class TrainableParts(Dense):
    """Builds projections and embeddings from `trainable_linear`."""

    def projection(self, weights: Params, name: str, bias: bool = False) -> Projection:
        """Return the function x -> x @ W.T + b, as `Dense` does."""
        w = weights[f"{name}.weight"]
        if not bias:
            return lambda x: trainable_linear(x, w)  # type: ignore[return-value]
        b = weights[f"{name}.bias"]
        return lambda x: trainable_linear(x, w) + b  # type: ignore[operator]

    def embedding(self, weights: Params, name: str, config: ModelConfig) -> Embedding:
        """Return the embedding whose table, V x E, is `name.weight`."""
        return TrainableEmbedding(config.vocab_size, config.hidden_size, weights[f"{name}.weight"])


class TrainableNorm:
    """`RMSNorm` with the weight of one layer, by a function of x and the weight."""

    def __init__(self, weight: mx.array, norm: NormFunction) -> None:
        self.weight, self.norm = weight, norm

    def __call__(self, x: mx.array) -> mx.array:
        """Normalize each vector along the last axis."""
        return self.norm(x, self.weight)


class TrainableSwiGLU(SwiGLU):
    """`SwiGLU` by a function of gate and up."""

    def __init__(self, weights: Params, parts: Dense, operators: Operators) -> None:
        """Build the matrices from the weights of one layer."""
        super().__init__(weights, parts)
        self.swiglu = operators.swiglu

    def __call__(self, x: mx.array) -> mx.array:
        """Map N.. x E to N.. x E."""
        return self.down(self.swiglu(self.gate(x), self.up(x)))


class PackedAttention:
    """Grouped-query self-attention over rows that may hold several documents."""

    def __init__(self, config: ModelConfig, weights: Params, parts: Dense, operators: Operators) -> None:
        """Build a Qwen3 layer's projections and norms.

        Raises:
            KeyError: a weight is missing.
        """
        self.query, self.key, self.value, self.output = (
            parts.projection(weights, f"self_attn.{name}_proj") for name in "qkvo"
        )
        norm = operators.norm(config.rms_norm_eps)
        self.query_norm, self.key_norm = (
            TrainableNorm(weights[f"self_attn.{name}_norm.weight"], norm) for name in "qk"
        )
        self.head_dim, self.attend = config.head_dim, operators.attend

    def __call__(self, x: mx.array, rotation: tuple[mx.array, mx.array], mask: mx.array) -> mx.array:
        """Attend within each document.

        Args:
            x: N x L x E.
            rotation: the cosines and sines of each token's position, N x L x 1 x D/2 each.
            mask: N x 1 x L x L, bool, True where a query sees a key.

        Returns:
            N x L x E.
        """
        query, key, value = (mx.unflatten(f(x), -1, (-1, self.head_dim)) for f in (self.query, self.key, self.value))
        query, key = (  # type: ignore[assignment]
            rotate(norm(a), *rotation) for norm, a in ((self.query_norm, query), (self.key_norm, key))
        )
        return self.output(self.attend(query, key, value, mask).flatten(2))


@mx.custom_function
def rotate(x: mx.array, cos: mx.array, sin: mx.array) -> mx.array:
    """Apply `RoPE` at each token's own position: x is N x L x H x D, cos and sin are N x L x 1 x D/2."""
    first, second = mx.split(x, 2, axis=-1)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


@rotate.vjp
def _(inputs: tuple[mx.array, ...], dy: mx.array, _: mx.array) -> tuple[mx.array, ...]:
    _, cos, sin = inputs
    # Rotate back: without this, MLX would copy each half into zeros. The angles depend on no parameter.
    return rotate(dy, cos, -sin), mx.zeros_like(cos), mx.zeros_like(sin)  # type: ignore[return-value]


class TrainableModel(Decoder):
    """Logits of packed rows."""

    def __init__(self, config: ModelConfig, params: Params, operators: Operators = ARRAYS) -> None:
        """Build the layers around the parameters, which may be the arrays that `mx.value_and_grad` traces.

        Raises:
            KeyError: a weight is missing.
        """
        parts = TrainableParts()
        super().__init__(
            config,
            params,
            parts,
            attention=lambda _, own: PackedAttention(config, own, parts, operators),
            mlp=lambda _, own: TrainableSwiGLU(own, parts, operators),
        )
        self.config, norm = config, operators.norm(config.rms_norm_eps)
        for number, layer in enumerate(self.layers):
            layer.attention_norm, layer.mlp_norm = (
                TrainableNorm(params[f"model.layers.{number}.{name}_layernorm.weight"], norm)
                for name in ("input", "post_attention")
            )
        self.norm = TrainableNorm(params["model.norm.weight"], norm)

    def __call__(self, tokens: mx.array, positions: mx.array, mask: mx.array) -> mx.array:
        """Return next-token logits.

        Args:
            tokens: N x L, integers.
            positions: N x L, integers: the position of each token in its document.
            mask: N x 1 x L x L, bool, as `document_mask` returns it; what `operators.attend` takes, if that is another.

        Returns:
            N x L x V. For each document, those of `Qwen3CachedModel` for that document alone, up to rounding.
        """
        angles = rotation_angles(self.config.head_dim, tokens.shape[1], self.config.rope_theta)  # L x D/2
        cos, sin = (table[positions][:, :, None] for table in (mx.cos(angles), mx.sin(angles)))  # N x L x 1 x D/2
        x = self.embedding(tokens)  # N x L x E
        for layer in self.layers:
            x = layer(x, (cos, sin), mask)
        return self.head(self.norm(x))


def loss_function(config: ModelConfig) -> Callable[[Params, Rows], mx.array]:
    """Return the function of the parameters and packed rows that training minimizes: nats per counted target."""

    def loss(params: Params, rows: Rows) -> mx.array:
        logits = TrainableModel(config, params)(rows.tokens, rows.positions, document_mask(rows.document_ids))
        return cross_entropy(logits, rows.targets)

    return loss


def initial_params(config: ModelConfig, seed: int, spread: float = 0.02) -> Params:
    """Return random weights, float32: normal with this standard deviation, norms of ones.

    The matrices that write to the residual stream are smaller by the root of the number of writes, as in GPT-2.
    """
    heads, kv_heads = (config.head_dim * n for n in (config.num_attention_heads, config.num_key_value_heads))
    size, width = config.hidden_size, config.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, size)}
    for layer in range(config.num_hidden_layers):
        own: dict[str, tuple[int, ...]] = {
            "input_layernorm": (size,),
            "self_attn.q_proj": (heads, size),
            "self_attn.k_proj": (kv_heads, size),
            "self_attn.v_proj": (kv_heads, size),
            "self_attn.o_proj": (size, heads),
            "self_attn.q_norm": (config.head_dim,),
            "self_attn.k_norm": (config.head_dim,),
            "post_attention_layernorm": (size,),
            "mlp.gate_proj": (width, size),
            "mlp.up_proj": (width, size),
            "mlp.down_proj": (size, width),
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in own.items()}
    shapes["model.norm.weight"] = (size,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, size)
    writes = (2 * config.num_hidden_layers) ** -0.5
    params = {}
    for (name, shape), key in zip(shapes.items(), mx.random.split(mx.random.key(seed), len(shapes)), strict=True):
        scale = spread * (writes if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0)
        params[name] = mx.random.normal(shape, scale=scale, key=key) if len(shape) > 1 else mx.ones(shape)
    mx.eval(params)
    return params


def compiled_loss_and_grads(
    config: ModelConfig, make: Callable[[ModelConfig], Callable[[Params, Rows], mx.array]] = loss_function
) -> Callable[[Params, Rows], tuple[mx.array, Params]]:
    """Return the loss of `make` and its gradients as one compiled function: `mx.compile` needs a compiler on a CPU."""
    loss = make(config)
    differentiate = mx.compile(mx.value_and_grad(lambda params, *arrays: loss(params, Rows(*arrays))))

    def loss_and_grads(params: Params, rows: Rows) -> tuple[mx.array, Params]:
        found: tuple[mx.array, Params] = differentiate(
            params, rows.tokens, rows.targets, rows.document_ids, rows.positions
        )
        return found

    return loss_and_grads

"""How well a model predicts texts longer than those it was trained on, without scaling and with three kinds of it."""

import math
from itertools import pairwise

import mlx.core as mx
import numpy as np

from tiny_llm.long_context.interpolation import linear_frequencies
from tiny_llm.long_context.ntk import ntk_frequencies
from tiny_llm.long_context.rope import ScaledRoPE
from tiny_llm.long_context.yarn import yarn_frequencies
from tiny_llm.tokenizer import ByteLevelBPE
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import END, shipped_stories
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, number

# What the book draws of the table.
CHART = ("lines", "perplexity", ("as trained", "interpolation", "NTK-aware", "YaRN"))

TRAINED = 512  # tokens in a row of the training, as the model's card says


def measure(quick: bool = False) -> Table:
    """The stories that come with the course, one after the other, read from the beginning up to so many tokens.

    Each kind of scaling is set for the length: its factor is the length by that of the training. The last column is
    YaRN with the fast pairs divided, and the slow ones kept.
    """
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    reader = Reader(checkpoint.config, checkpoint.weights)
    encode = ByteLevelBPE.from_file(checkpoint.tokenizer).encode
    trained, lengths = (32, [32, 64]) if quick else (TRAINED, [TRAINED * times for times in (1, 2, 4, 8)])
    stories = shipped_stories()[: 2 if quick else None]
    text = mx.array(encode(END.join(["", *stories, ""])))  # with the marks between them, as in training
    dims, base = checkpoint.config["head_dim"], checkpoint.config["rope_theta"]
    plain = ScaledRoPE(dims, linear_frequencies(dims, base, 1))
    rows = []
    for length in lengths:
        factor = length / trained
        divided, (parts, sharper) = (
            linear_frequencies(dims, base, factor),
            yarn_frequencies(dims, base, factor, trained),
        )
        exchanged = plain.frequencies + divided - parts
        kinds = [
            plain,
            ScaledRoPE(dims, divided),
            ScaledRoPE(dims, ntk_frequencies(dims, base, factor)),
            ScaledRoPE(dims, parts, sharper),
            ScaledRoPE(dims, exchanged, sharper),
        ]
        pieces = [
            reader.losses(text[first : last + 1], plain) for first, last in pairwise(range(0, length + 1, trained))
        ]
        losses = [np.concatenate(pieces), *(reader.losses(text[: length + 1], rope) for rope in kinds)]
        rows.append((length, *(math.exp(each.mean()) for each in losses)))
    alone, none, *_, parts_alone, _ = rows[-1][1:]
    return Table(
        ("tokens", f"in pieces of {trained}", *CHART[2], "YaRN exchanged"),
        tuple(rows),
        f"Of {lengths[-1]:,} tokens read at once, {lengths[-1] // trained} times as many as in training, the "
        f"perplexity is {number(none)} without scaling and {number(parts_alone)} with YaRN; in pieces it is "
        f"{number(alone)}.",
    )


class Reader:
    """Qwen3 by MLX's own operators, with a RoPE that is handed over; all of a text at once."""

    def __init__(self, config: dict[str, int | float], weights: dict[str, mx.array]) -> None:
        self.layers, self.dims = int(config["num_hidden_layers"]), int(config["head_dim"])
        self.eps, self.weights = float(config["rms_norm_eps"]), weights

    def losses(self, text: mx.array, rope: ScaledRoPE) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The loss of each token but the first, in nats."""
        x = self.weights["model.embed_tokens.weight"][text[None, :-1]]  # 1 x L x E
        for number_of_layer in range(self.layers):
            own = f"model.layers.{number_of_layer}."
            x = x + self._attention(self._norm(x, f"{own}input_layernorm"), f"{own}self_attn.", rope)
            y = self._norm(x, f"{own}post_attention_layernorm")
            gate, up = (y @ self.weights[f"{own}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
            x = x + (gate * mx.sigmoid(gate) * up) @ self.weights[f"{own}mlp.down_proj.weight"].T
            mx.eval(x)
        logits = (self._norm(x, "model.norm") @ self.weights["model.embed_tokens.weight"].T)[0]
        chosen = mx.take_along_axis(logits, text[1:, None], axis=-1)[:, 0]
        return np.array(mx.logsumexp(logits, axis=-1) - chosen).astype(np.float64)

    def _attention(self, x: mx.array, own: str, rope: ScaledRoPE) -> mx.array:
        query, key, value = (
            mx.unflatten(x @ self.weights[f"{own}{name}_proj.weight"].T, -1, (-1, self.dims)) for name in "qkv"
        )
        query, key = rope(self._norm(query, f"{own}q_norm")), rope(self._norm(key, f"{own}k_norm"))
        query, key, value = (each.swapaxes(1, 2) for each in (query, key, value))
        attended = []
        for first in range(0, x.shape[1], TRAINED):  # in blocks, so that most of what is hidden is not computed
            last = first + TRAINED
            block = query[:, :, first:last], key[:, :, :last], value[:, :, :last]
            attended.append(mx.fast.scaled_dot_product_attention(*block, scale=self.dims**-0.5, mask="causal"))
        return mx.concatenate(attended, axis=2).swapaxes(1, 2).flatten(2) @ self.weights[f"{own}o_proj.weight"].T

    def _norm(self, x: mx.array, name: str) -> mx.array:
        return mx.fast.rms_norm(x, self.weights[f"{name}.weight"], self.eps)

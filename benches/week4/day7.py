"""Perplexity on sequences longer than those trained on, unscaled and with three kinds of scaling."""

import math
from itertools import pairwise
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from tiny_llm.long_context.interpolation import linear_frequencies
from tiny_llm.long_context.ntk import ntk_frequencies
from tiny_llm.long_context.rope import ScaledRoPE
from tiny_llm.long_context.yarn import yarn_frequencies
from tiny_llm.tokenizer import ByteLevelBPE
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.checkpoints.held_out import END, shipped_stories
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, number

# What the book draws of the table; a literal, because the book reads it without running this file.
CHART = ("lines", "perplexity", ("unscaled", "in pieces of 512", "interpolation", "NTK-aware", "YaRN"))

TRAINED = 512  # training sequence length, from the model card
BLOCK = 512  # queries per attention block

Numbers = NDArray[Any]


def measure(quick: bool = False) -> Table:
    """Measure perplexity over the first tokens of the course's stories, concatenated.

    Each scaling's factor is the sequence length divided by the training length. The last column is YaRN with the fast
    pairs divided and the slow ones kept.
    """
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    reader = Reader(checkpoint.config, checkpoint.weights)
    encode = ByteLevelBPE.from_file(checkpoint.tokenizer).encode
    trained, lengths = (32, [32, 64]) if quick else (TRAINED, [TRAINED * times for times in (1, 2, 4, 8)])
    stories = shipped_stories()[: 2 if quick else None]
    text = np.array(encode(END.join(["", *stories, ""])))  # with separators, as in training
    dims, base = checkpoint.config["head_dim"], checkpoint.config["rope_theta"]
    kept = linear_frequencies(dims, base, 1)
    plain = ScaledRoPE(dims, kept)
    rows = []
    for length in lengths:
        factor = length / trained
        divided, (parts, sharper) = (
            linear_frequencies(dims, base, factor),
            yarn_frequencies(dims, base, factor, trained),
        )
        swapped = kept + divided - parts
        kinds = [
            plain,
            ScaledRoPE(dims, divided),
            ScaledRoPE(dims, ntk_frequencies(dims, base, factor)),
            ScaledRoPE(dims, parts, sharper),
            ScaledRoPE(dims, swapped, sharper),
        ]
        pieces = [
            reader.losses(text[first : last + 1], plain) for first, last in pairwise(range(0, length + 1, trained))
        ]
        losses = [np.concatenate(pieces), *(reader.losses(text[: length + 1], rope) for rope in kinds)]
        rows.append((length, *(math.exp(each.mean()) for each in losses)))
    alone, none, *_, parts_alone, _ = rows[-1][1:]
    return Table(
        ("tokens", f"in pieces of {trained}", "unscaled", *CHART[2][2:], "YaRN, swapped"),
        tuple(rows),
        f"Over {lengths[-1]:,} tokens at once, {lengths[-1] // trained} times the training length, perplexity is "
        f"{number(none)} without scaling and {number(parts_alone)} with YaRN; in independent pieces of {trained} it is "
        f"{number(alone)}.",
    )


class Reader:
    """Qwen3 in NumPy, whose matmuls are fast on every machine, with an injected RoPE."""

    def __init__(self, config: dict[str, Any], weights: dict[str, mx.array]) -> None:
        self.layers, self.dims, self.eps = config["num_hidden_layers"], config["head_dim"], config["rms_norm_eps"]
        self.weights = {name.removesuffix(".weight"): np.array(each) for name, each in weights.items()}

    def losses(self, text: Numbers, rope: ScaledRoPE) -> Numbers:
        """Return the loss of each token but the first, in nats."""
        x = self.weights["model.embed_tokens"][text[:-1]]  # L x E
        for layer in range(self.layers):
            own = f"model.layers.{layer}."
            x = x + self._attention(self._norm(x, f"{own}input_layernorm"), f"{own}self_attn.", rope)
            y = self._norm(x, f"{own}post_attention_layernorm")
            gate, up = (y @ self.weights[f"{own}mlp.{name}_proj"].T for name in ("gate", "up"))
            x = x + (gate / (1 + np.exp(-gate)) * up) @ self.weights[f"{own}mlp.down_proj"].T
        logits = self._norm(x, "model.norm") @ self.weights["model.embed_tokens"].T
        logits -= logits.max(axis=-1, keepdims=True)
        chosen = np.take_along_axis(logits, text[1:, None], axis=-1)[:, 0]
        losses: Numbers = np.log(np.exp(logits).sum(axis=-1, dtype=np.float64)) - chosen
        return losses

    def _attention(self, x: Numbers, own: str, rope: ScaledRoPE) -> Numbers:
        query, key, value = ((x @ self.weights[f"{own}{name}_proj"].T).reshape(len(x), -1, self.dims) for name in "qkv")
        query, key = (
            np.array(rope(mx.array(self._norm(each, f"{own}{name}_norm"))[None]))[0]
            for name, each in (("q", query), ("k", key))
        )
        kv_heads = key.shape[1]
        query = query.reshape(len(x), kv_heads, -1, self.dims).transpose(1, 2, 0, 3) * self.dims**-0.5
        key, value = (each.transpose(1, 0, 2)[:, None] for each in (key, value))  # H_kv x 1 x L x D
        blocks = []
        for first in range(0, len(x), BLOCK):  # skips most of the masked half
            last = min(first + BLOCK, len(x))
            scores = query[:, :, first:last] @ key[:, :, :last].swapaxes(-1, -2)
            scores[..., first:] += np.triu(np.full((last - first, last - first), -np.inf, np.float32), k=1)
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            blocks.append(scores @ value[:, :, :last] / scores.sum(axis=-1, keepdims=True))
        attended = np.concatenate(blocks, axis=2).transpose(2, 0, 1, 3).reshape(len(x), -1)  # L x H * D
        mixed: Numbers = attended @ self.weights[f"{own}o_proj"].T
        return mixed

    def _norm(self, x: Numbers, name: str) -> Numbers:
        scaled: Numbers = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps) * self.weights[name]
        return scaled

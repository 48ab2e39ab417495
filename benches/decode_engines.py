"""Run one of the engines that `decode.py` interleaves, in its own process: `python decode_engines.py NAME FOLDER`.

They obey as `tiny_llm_course.measuring.engine_process` says, like llama.cpp's process, `llama_engine.py`.
"""

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from tiny_llm_course.measuring.engine_process import Obeying, obey
from tiny_llm_course.paths import EMBEDDED_MODEL

# Qwen3-0.6B.
SHAPE = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "intermediate_size": 3072,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "vocab_size": 151936,
    "max_position_embeddings": 4096,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}
LAYERS, E, HEADS, KV, D, WIDTH, VOCABULARY = 28, 1024, 16, 8, 128, 3072, 151936
GROUP = 64
# Of one layer: name, outputs, inputs.
MATRICES = [
    ("self_attn.q_proj", HEADS * D, E),
    ("self_attn.k_proj", KV * D, E),
    ("self_attn.v_proj", KV * D, E),
    ("self_attn.o_proj", E, HEADS * D),
    ("mlp.gate_proj", WIDTH, E),
    ("mlp.up_proj", WIDTH, E),
    ("mlp.down_proj", E, WIDTH),
]
VECTORS = [("input_layernorm", E), ("post_attention_layernorm", E), ("self_attn.q_norm", D), ("self_attn.k_norm", D)]


class OfMlx(Obeying):
    """What our models and mlx-lm's have in common: they are called with tokens and caches."""

    def __init__(self, model: Callable[..., Any], new_caches: Callable[[], list[Any]]) -> None:
        self.model, self.new_caches = model, new_caches
        self.caches: list[Any] = []

    def forget(self) -> None:
        """Empty the caches."""
        self.caches = self.new_caches()

    def append(self, tokens: Sequence[int]) -> None:
        """Read tokens, up to the logits of the last one."""
        mx.eval(self.model(mx.array([tokens]), self.caches)[:, -1])


def random_weights() -> dict[str, mx.array]:
    """Weights in this shape, the matrices in 4 bits: they mean nothing, and products keep their size."""
    weights = {"model.norm.weight": mx.ones(E)}
    names = [("model.embed_tokens", VOCABULARY, E)]
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        names += [(prefix + name, outputs, inputs) for name, outputs, inputs in MATRICES]
        weights |= {f"{prefix}{name}.weight": mx.ones(size) for name, size in VECTORS}
    for name, outputs, inputs in names:
        weights[f"{name}.weight"] = mx.random.randint(-(2**31), 2**31 - 1, (outputs, inputs // 8)).view(mx.uint32)
        scale = mx.full((outputs, inputs // GROUP), 0.004).astype(mx.bfloat16)
        weights[f"{name}.scales"], weights[f"{name}.biases"] = scale, -7.5 * scale
    return weights


def write_checkpoint(folder: Path) -> Path:
    """Write these weights as a checkpoint, with the tokenizer of the model that comes with the course."""
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), random_weights(), {"format": "mlx"})
    config = {"architectures": ["Qwen3ForCausalLM"], **SHAPE, "quantization": {"group_size": GROUP, "bits": 4}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for file in EMBEDDED_MODEL.glob("tokenizer*.json"):
        shutil.copy(file, folder)
    return folder


def ours(folder: Path, int8: bool) -> tuple[OfMlx, str]:
    """The fused engine: stage `int8`, or `flash`, which has float activations."""
    sys.path.insert(0, str(folder))
    from tiny_llm.config import ModelConfig
    from tiny_llm.kernels.fused import Qwen3FusedModel

    model = Qwen3FusedModel(ModelConfig.from_dict(SHAPE), random_weights(), int8, flash=True)
    name, kind = ("int8", "8-bit") if int8 else ("flash", "float32")
    return OfMlx(model, model.new_caches), f"stage {name}, {kind} activations"


def mlx_lm(_: Path) -> tuple[OfMlx, str]:
    """mlx-lm with 4-bit weights in float32, its fastest dtype on a CPU."""
    from importlib.metadata import version

    import mlx.nn as nn
    from mlx_lm.models import qwen3
    from mlx_lm.models.cache import make_prompt_cache

    model = qwen3.Model(qwen3.ModelArgs.from_dict(SHAPE))  # type: ignore[no-untyped-call]
    nn.quantize(model, GROUP, 4)
    mx.eval(model.parameters())  # type: ignore[no-untyped-call]
    caller = OfMlx(lambda tokens, caches: model(tokens, cache=caches), lambda: make_prompt_cache(model))
    return caller, f"mlx-lm {version('mlx-lm')}, 4 bits, float32"


def main() -> None:
    """Make one engine, and do as it is told."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    makers: dict[str, Callable[[Path], tuple[OfMlx, str]]] = {
        "float": lambda folder: ours(folder, int8=False),
        "int8": lambda folder: ours(folder, int8=True),
        "mlx-lm": mlx_lm,
    }
    mx.set_default_device(mx.Device(mx.cpu))
    obey(*makers[name](folder))


if __name__ == "__main__":
    main()

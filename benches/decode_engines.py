"""The engines that `decode.py` lets take turns, each in a process of its own: `python decode_engines.py NAME FOLDER`.

A process makes its model, says in one line of JSON what it is, and then does what it is told by lines on its standard
input: {"prefill": 128} and {"decode": 16, "context": 128} are answered by seconds, of the prompt and of one token.
"""

import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


class OfMlx:
    """What our models and mlx-lm's have in common: they are called with tokens and caches."""

    def __init__(self, model: Callable[..., Any], new_caches: Callable[[], list[Any]]) -> None:
        self.model, self.new_caches = model, new_caches
        self.caches: list[Any] = []
        self.read = 0

    def prefill(self, tokens: int) -> float:
        """Seconds for a prompt of so many, up to the logits of the last one."""
        self.caches = self.new_caches()
        self.read = 0
        return self._seconds(range(100, 100 + tokens))

    def decode(self, steps: int, context: int) -> float:
        """Seconds for one token after so many: the median of a few."""
        if not context <= self.read <= context + 16 * steps:
            self.prefill(context)
        return statistics.median(self._seconds([7 + i]) for i in range(steps))

    def _seconds(self, tokens: Any) -> float:
        import mlx.core as mx

        begun = time.perf_counter()
        mx.eval(mx.argmax(self.model(mx.array([list(tokens)]), self.caches)[:, -1]))
        self.read += len(tokens)
        return time.perf_counter() - begun


def ours(folder: Path, int8: bool) -> tuple[OfMlx, str]:
    """The fused engine, with float or with 8-bit activations."""
    sys.path.insert(0, str(folder))
    import mlx.core as mx

    from tiny_llm.config import ModelConfig
    from tiny_llm.kernels.fused import Qwen3FusedModel

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
    model = Qwen3FusedModel(ModelConfig.from_dict(SHAPE), weights, int8)
    return OfMlx(model, model.new_caches), f"stage fused, {'8-bit' if int8 else 'float32'} activations"


def mlx_lm(_: Path) -> tuple[OfMlx, str]:
    """mlx-lm with 4-bit weights in float32, its fastest dtype on a CPU."""
    from importlib.metadata import version

    import mlx.core as mx
    import mlx.nn as nn
    from mlx_lm.models import qwen3
    from mlx_lm.models.cache import make_prompt_cache

    model = qwen3.Model(qwen3.ModelArgs.from_dict(SHAPE))  # type: ignore[no-untyped-call]
    nn.quantize(model, GROUP, 4)
    mx.eval(model.parameters())  # type: ignore[no-untyped-call]
    caller = OfMlx(lambda tokens, caches: model(tokens, cache=caches), lambda: make_prompt_cache(model))
    return caller, f"mlx-lm {version('mlx-lm')}, 4 bits, float32"


class LlamaCpp:
    """llama.cpp on random weights in Q4_0, through its C interface."""

    def __init__(self, file: Path, threads: int) -> None:
        import llama_cpp

        self.api = llama_cpp
        self.silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = 4096, 2048, 512
        settings.n_threads = settings.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(model, settings)
        self.read = 0

    def prefill(self, tokens: int) -> float:
        """Seconds for a prompt of so many, up to the logits of the last one."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)
        self.read = 0
        return self._seconds(range(100, 100 + tokens))

    def decode(self, steps: int, context: int) -> float:
        """Seconds for one token after so many: the median of a few."""
        if not context <= self.read <= context + 16 * steps:
            self.prefill(context)
        return statistics.median(self._seconds([7 + i]) for i in range(steps))

    def _seconds(self, tokens: Any) -> float:
        batch = self.api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, self.read + i, 1, 0
            batch.logits[i] = i == len(tokens) - 1
        begun = time.perf_counter()
        if self.api.llama_decode(self.context, batch):
            raise RuntimeError("llama.cpp could not read the tokens")
        self.api.llama_synchronize(self.context)
        taken = time.perf_counter() - begun
        self.api.llama_batch_free(batch)
        self.read += len(tokens)
        return taken


def llama_cpp(folder: Path, threads: int = 2) -> tuple[LlamaCpp, str]:
    """llama.cpp. Its model is made once: random weights in `folder`."""
    import llama_cpp as api

    file = folder / "qwen3-0.6b-random-q4_0.gguf"
    if not file.exists():
        _write_gguf(file)
    return LlamaCpp(file, threads), f"llama.cpp (llama-cpp-python {api.__version__}), Q4_0"


def _write_gguf(file: Path) -> None:
    import gguf
    import numpy as np

    kind, random = gguf.GGMLQuantizationType.Q4_0, np.random.default_rng(0)
    writer = gguf.GGUFWriter(file.with_suffix(".begun"), "qwen3")
    writer.add_block_count(LAYERS)
    writer.add_context_length(4096)
    writer.add_embedding_length(E)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_key_length(D)
    writer.add_value_length(D)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")

    def matrix(name: str, outputs: int, inputs: int) -> None:
        w = random.standard_normal((outputs, inputs), dtype=np.float32) * 0.02
        writer.add_tensor(name, gguf.quants.quantize(w, kind), raw_dtype=kind)

    theirs = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    vectors = ["attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"]
    matrix("token_embd.weight", VOCABULARY, E)
    writer.add_tensor("output_norm.weight", np.ones(E, np.float32))
    for layer in range(LAYERS):
        for name, (_, outputs, inputs) in zip(theirs, MATRICES, strict=True):
            matrix(f"blk.{layer}.{name}.weight", outputs, inputs)
        for name, (_, size) in zip(vectors, VECTORS, strict=True):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file.with_suffix(".begun").replace(file)


def main() -> None:
    """Make one engine, and do as it is told."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    makers: dict[str, Callable[[Path], tuple[Any, str]]] = {
        "float": lambda folder: ours(folder, int8=False),
        "int8": lambda folder: ours(folder, int8=True),
        "mlx-lm": mlx_lm,
        "llama.cpp": llama_cpp,
    }
    if "llama" not in name:
        import mlx.core as mx

        mx.set_default_device(mx.Device(mx.cpu))
    engine, title = makers[name](folder)
    print(json.dumps(title), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        done = engine.prefill(told["prefill"]) if "prefill" in told else engine.decode(told["decode"], told["context"])
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    main()

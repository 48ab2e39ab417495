"""llama.cpp, by random weights in Q4_0 of a model's shape: `python -m tiny_llm_course.measuring.llama CONFIG FOLDER`.

It obeys as `orders` says. What the weights are changes no time, so no checkpoint is converted; the file of a shape is
made once, in FOLDER. CONFIG is the text of a config.json. This needs llama-cpp-python and gguf, and nothing else but
the standard library, so that it may run in an environment that has nothing of the course.
"""

import ctypes
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .orders import Obeying, Process, obey

NEEDED = "llama-cpp-python and gguf"
CONTEXT = 4096


class LlamaCpp(Obeying):
    """llama.cpp through its C interface."""

    def __init__(self, file: Path) -> None:
        import llama_cpp

        self.api = llama_cpp
        self.silent = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = CONTEXT, 2048, 512
        settings.n_threads = settings.n_threads_batch = os.cpu_count() or 1
        self.context = llama_cpp.llama_init_from_model(model, settings)

    def forget(self) -> None:
        """Empty the cache."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def append(self, tokens: Sequence[int]) -> None:
        """Read tokens, up to the logits of the last one."""
        batch = self.api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, self.read + i, 1, 0
            batch.logits[i] = i == len(tokens) - 1
        if self.api.llama_decode(self.context, batch):
            raise RuntimeError("llama.cpp could not read the tokens")
        self.api.llama_synchronize(self.context)
        self.api.llama_batch_free(batch)


def started(config: dict[str, Any], folder: Path, python: str = sys.executable) -> Process:
    """Its process, run by a Python that has what it needs.

    Raises:
        RuntimeError: it has not, or llama.cpp does not take a model of this shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source = str(Path(__file__).parents[2])
    command = [python, "-m", f"{__package__}.llama", json.dumps(config), str(folder)]
    return Process(command, {**os.environ, "PYTHONPATH": source})


def _write_gguf(config: dict[str, Any], file: Path) -> None:
    import gguf
    import numpy as np

    if config["model_type"] != "qwen3":
        raise ValueError("only Qwen3's tensors are known here")
    kind, random = gguf.GGMLQuantizationType.Q4_0, np.random.default_rng(0)
    layers, hidden, width = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
    vocabulary, heads = config["vocab_size"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    dims = config.get("head_dim") or hidden // heads
    writer = gguf.GGUFWriter(file.with_suffix(".begun"), "qwen3")
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(width)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(dims)
    writer.add_value_length(dims)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("no_vocab")

    def matrix(name: str, outputs: int, inputs: int) -> None:
        weights = random.standard_normal((outputs, inputs), dtype=np.float32) * 0.02
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(weights, kind), raw_dtype=kind)

    def vector(name: str, size: int) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(size, np.float32))

    matrix("token_embd", vocabulary, hidden)
    if not config.get("tie_word_embeddings", False):
        matrix("output", vocabulary, hidden)
    vector("output_norm", hidden)
    for layer in range(layers):
        prefix = f"blk.{layer}."
        matrix(f"{prefix}attn_q", heads * dims, hidden)
        matrix(f"{prefix}attn_k", kv_heads * dims, hidden)
        matrix(f"{prefix}attn_v", kv_heads * dims, hidden)
        matrix(f"{prefix}attn_output", hidden, heads * dims)
        matrix(f"{prefix}ffn_gate", width, hidden)
        matrix(f"{prefix}ffn_up", width, hidden)
        matrix(f"{prefix}ffn_down", hidden, width)
        for name, size in (("attn_norm", hidden), ("ffn_norm", hidden), ("attn_q_norm", dims), ("attn_k_norm", dims)):
            vector(prefix + name, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file.with_suffix(".begun").replace(file)


def main() -> None:
    """Make the model of a shape, and do as is told."""
    import llama_cpp

    config = json.loads(sys.argv[1])
    file = Path(sys.argv[2], f"llama-{hashlib.sha256(sys.argv[1].encode()).hexdigest()[:16]}.gguf")
    if not file.exists():
        _write_gguf(config, file)
    obey(LlamaCpp(file), f"llama.cpp (llama-cpp-python {llama_cpp.__version__}), Q4_0")


if __name__ == "__main__":
    main()

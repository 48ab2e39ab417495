"""llama.cpp's process, which obeys as `tiny_llm_course.measuring.engine_process` says.

`python benches/llama_engine.py CONFIG FOLDER` runs random Q4_0 weights of a model's shape. CONFIG is the text of a
config.json; the GGUF file of a shape is cached in FOLDER. Needs llama-cpp-python and gguf only, to run in another
environment.
"""

import ctypes
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiny_llm_course.measuring.engine_process import Obeying, obey

CONTEXT = 4096


class LlamaCpp(Obeying):
    """llama.cpp through its C API."""

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
        settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = llama_cpp.llama_init_from_model(model, settings)

    def forget(self) -> None:
        """Clear the KV cache."""
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def append(self, tokens: Sequence[int]) -> None:
        """Process tokens, computing the logits of the last one."""
        batch = self.api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, self.cached + i, 1, 0
            batch.logits[i] = i == len(tokens) - 1
        if self.api.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode failed")
        self.api.llama_synchronize(self.context)
        self.api.llama_batch_free(batch)


def _write_gguf(config: dict[str, Any], file: Path) -> None:
    import gguf
    import numpy as np

    if config["model_type"] != "qwen3":
        raise ValueError("only Qwen3 is supported here")
    kind, random = gguf.GGMLQuantizationType.Q4_0, np.random.default_rng(0)
    layers, hidden, width = config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]
    vocabulary, heads = config["vocab_size"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    dims = config.get("head_dim") or hidden // heads
    writer = gguf.GGUFWriter(file.with_suffix(".begun"), "qwen3")
    fields = {"block_count": layers, "context_length": CONTEXT, "embedding_length": hidden, "vocab_size": vocabulary}
    fields |= {"feed_forward_length": width, "head_count": heads, "head_count_kv": kv_heads, "key_length": dims}
    fields |= {"value_length": dims, "rope_freq_base": 1e6, "layer_norm_rms_eps": 1e-6, "tokenizer_model": "no_vocab"}
    for field, value in fields.items():
        getattr(writer, f"add_{field}")(value)

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
        for name, outputs in (("attn_q", heads * dims), ("attn_k", kv_heads * dims), ("attn_v", kv_heads * dims)):
            matrix(prefix + name, outputs, hidden)
        for name, outputs, inputs in (("attn_output", hidden, heads * dims), ("ffn_down", hidden, width)):
            matrix(prefix + name, outputs, inputs)
        for name in ("ffn_gate", "ffn_up"):
            matrix(prefix + name, width, hidden)
        for name, size in (("attn_norm", hidden), ("ffn_norm", hidden), ("attn_q_norm", dims), ("attn_k_norm", dims)):
            vector(prefix + name, size)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file.with_suffix(".begun").replace(file)


def main() -> None:
    """Create the model file of a shape, and serve requests."""
    import llama_cpp

    config = json.loads(sys.argv[1])
    file = Path(sys.argv[2], f"llama-{hashlib.sha256(sys.argv[1].encode()).hexdigest()[:16]}.gguf")
    if not file.exists():
        _write_gguf(config, file)
    engine = LlamaCpp(file)
    # Q4_0 is repacked at load, and flash attention is on: on a CPU, its fastest settings.
    built = llama_cpp.llama_print_system_info().decode().partition("CPU : ")[2] or "unknown"
    features = [part.partition(" = ")[0].strip() for part in built.split("|") if part.strip().endswith(" = 1")]
    about = f"Q4_0, flash attention, {os.cpu_count() or 1} threads, built with {' '.join(features)}"
    obey(engine, f"llama.cpp (llama-cpp-python {llama_cpp.__version__}), {about}")


if __name__ == "__main__":
    main()

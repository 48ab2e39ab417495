"""The table of week 4's overview says what the harness reads in the config.json of one model of each family."""

import json

from tests.course.checkpoint_folders import put_json, small
from tests.course.further_models import EXPERTS, LLAMA3

from tiny_llm_course.checkpoints.checkpoint import read_config
from tiny_llm_course.checkpoints.features import rope_table, rope_type, unsupported_features
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.paths import BOOK
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.further.config import FurtherConfig  # noqa: E402

NAMES: tuple[str, ...] = ("model_type", "hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads")
NAMES += ("num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "rope_theta", "rms_norm_eps")
MODELS = {  # as published
    "Qwen3-0.6B": ("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 40960, 1e6, 1e-6),
    "Qwen2.5-0.5B": ("qwen2", 896, 24, 4864, 14, 2, None, 151936, 32768, 1e6, 1e-6),
    "Llama-3.2-1B": ("llama", 2048, 16, 8192, 32, 8, 64, 128256, 131072, 5e5, 1e-5),
    "Mistral NeMo": ("mistral", 5120, 40, 14336, 32, 8, 128, 131072, 131072, 1e6, 1e-5),
    "Qwen3-30B-A3B": ("qwen3_moe", 2048, 48, 6144, 32, 4, 128, 151936, 40960, 1e6, 1e-6),
}
MORE = {
    "Qwen3-0.6B": {"tie_word_embeddings": True},
    "Qwen2.5-0.5B": {"tie_word_embeddings": True, "sliding_window": 32768, "use_sliding_window": False},
    "Llama-3.2-1B": {"tie_word_embeddings": True, "rope_scaling": {**LLAMA3, "factor": 32.0}},
    "Mistral NeMo": {"sliding_window": None},
    "Qwen3-30B-A3B": {**EXPERTS, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
}


def row_of(config):
    """The cells of a model, from top to bottom."""
    read = FurtherConfig.from_dict(config)
    base, table = read.base, rope_table(config)
    heads = base.num_attention_heads, base.num_key_value_heads, base.head_dim
    experts = read.experts and f"{read.experts.top_k} of {read.experts.count} experts of width {read.experts.width}"
    return {
        "`model_type`": f"`{config['model_type']}`",
        "norm of queries and keys": "per head" if read.norms else "none",
        "biases": "queries, keys, values" if read.biases else "none",
        "E; H · D": f"{base.hidden_size:,}; {heads[0] * heads[2]:,}",
        "H, H_kv, D": ", ".join(map(str, heads)),
        "LM head": "tied" if base.tie_word_embeddings else "its own",
        "RoPE base": f"{base.rope_theta:,.0f}",
        "RoPE scaling": f"`{rope_type(config)}`, factor {table['factor']:.0f}" if read.scaled else "none",
        "sliding window": f"{max(filter(None, read.windows)):,}" if any(read.windows) else "none",
        "MLP": experts or f"width {base.intermediate_size:,}",
        "activation": {"silu": "SiLU"}[config.get("hidden_act", "silu")],
        "runs in": "`further`" if unsupported_features(config) else "all stages",
    }


def test_the_table_says_what_the_configs_say(tmp_path):
    page = (BOOK / "src" / "week4" / "overview.md").read_text(encoding="utf-8")
    lines = page.partition("{#families}")[2].partition("|\n\n")[0].split("\n|")[1:]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert head[1:] == list(MODELS)
    found: dict[str, list[str]] = {}
    for name, values in MODELS.items():
        put_json(tmp_path / "config.json", {**dict(zip(NAMES, values, strict=True)), **MORE[name]})
        for label, cell in row_of(read_config(tmp_path)).items():
            found.setdefault(label, []).append(cell)
    assert {label: cells for label, *cells in rows} == found


def test_a_text_begins_with_the_token_that_begins_all_texts(checkpoint):
    """As Llama 3's post_processor says, except if the text states it, as a chat template does."""
    folder = checkpoint(small())
    single = [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    steps = [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": single}]
    table = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    put_json(folder / "tokenizer.json", table | {"post_processor": {"type": "Sequence", "processors": steps}})
    engine = load_engine(str(folder), True, "float32")
    first = engine.tokenizer.special_tokens["<|im_start|>"]
    assert engine.encode("the") == [first, *engine.tokenizer.encode("the")]
    assert engine.encode("<|im_start|>the") == engine.encode("the")

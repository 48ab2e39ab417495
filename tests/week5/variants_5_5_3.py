"""Known programs of task 5.5.3, saving an adapter."""

import json
import re
import tempfile
from pathlib import Path

import mlx.core as mx
from tests.week5.adapters import DOWN11, FILES, Q0, V0, drawn
from tiny_llm_solution.lora.adapter import Adapter

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.5.3")
WRITTEN = ("peft_type", "task_type", "r", "lora_alpha", "target_modules", "fine_tune_type", "num_layers")
PARAMETERS = ("rank", "scale", "dropout", "keys")


def letters(text):
    return mx.array([*text.encode()], dtype=mx.int32)


def saved(program, form, seed=1, rank=2, alpha=3.0, names=(Q0, V0, DOWN11), dtype=mx.float32, below="adapter"):
    """Return what is written: the files' names, the config, and the tensors by their names."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / below
        program(at, Adapter(drawn(seed, names, rank, dtype), alpha), form)
        config = json.loads((at / "adapter_config.json").read_text())
        own = {name: config[name] for name in WRITTEN if name in config}
        own |= {name: config["lora_parameters"].get(name) for name in PARAMETERS if "lora_parameters" in config}
        tensors = dict(sorted(mx.load(str(at / FILES[form])).items()))
        mx.eval(tensors)
        return letters(json.dumps([*tensors, own], sort_keys=True)), *tensors.values()


def of_layer_125(program):
    """Return mlx-lm's keys for a projection of a layer whose number has three digits."""
    name = "model.layers.125.mlp.down_proj"
    with tempfile.TemporaryDirectory() as folder:
        weights = {f"{name}.lora_a": mx.ones((2, 6)), f"{name}.lora_b": mx.ones((7, 2))}
        program(Path(folder), Adapter(weights, 3.0), "mlx-lm")
        config = json.loads((Path(folder) / "adapter_config.json").read_text())
    return letters(json.dumps(config["lora_parameters"]["keys"]))


def peft_file(program):
    """Return whether the weights have PEFT's file name."""
    with tempfile.TemporaryDirectory() as folder:
        program(Path(folder), Adapter(drawn(2), 3.0), "peft")
        return letters(" ".join(sorted(path.name for path in Path(folder).iterdir())))


known.probe_table(
    peft=lambda program: saved(program, "peft"),
    mlx_lm=lambda program: saved(program, "mlx-lm"),
    peft_rank_4=lambda program: saved(program, "peft", 3, 4, 8.0),
    mlx_lm_rank_4=lambda program: saved(program, "mlx-lm", 3, 4, 8.0),
    peft_fraction=lambda program: saved(program, "peft", 6, 4, 2.5),
    mlx_lm_fraction=lambda program: saved(program, "mlx-lm", 6, 4, 2.5),
    square=lambda program: saved(program, "mlx-lm", 4, 5, 1.0, (Q0,)),
    a_new_folder=lambda program: saved(program, "peft", below="a/b"),
    names=peft_file,
    three_digits=of_layer_125,
)
known.probe_table(mx.float16, narrow=lambda program: saved(program, "peft", dtype=mx.float16))


@known.probe()
def save_refused(program):
    with tempfile.TemporaryDirectory() as folder:
        own = Adapter(drawn(5), 3.0)
        return mx.array([refusal(lambda: program(Path(folder) / "x", own, "gguf")), len([*Path(folder).rglob("*")])])


known.not_timed("writing a file takes as long as the disk")

known.change(
    "small-letters",
    ('lora_A.weight"] = a', 'lora_a.weight"] = a'),
    ('lora_B.weight"] = b', 'lora_b.weight"] = b'),
    fact="PEFT's tensors are named lora_a and lora_b instead of lora_A and lora_B",
    question="Which letters of PEFT's names are capitals?",
)
known.change(
    "without-the-model-s-prefix",
    ('weights[f"base_model.model.{name}.lora_A', 'weights[f"{name}.lora_A'),
    ('weights[f"base_model.model.{name}.lora_B', 'weights[f"{name}.lora_B'),
    fact="the prefix base_model.model. is missing in PEFT's names",
    question="PEFT wraps the model twice. What do these two wrappers add to a name?",
)
known.change(
    "not-transposed",
    ("= a.T, b.T", "= a, b"),
    fact="mlx-lm's matrices are laid out as PEFT's, r x I and O x r",
    question="From which side does mlx-lm multiply x by lora_a?",
)
known.change(
    "both-transposed",
    ('lora_A.weight"] = a', 'lora_A.weight"] = a.T'),
    ('lora_B.weight"] = b', 'lora_B.weight"] = b.T'),
    fact="PEFT's matrices are transposed, too",
    question="A is the weight of a linear layer from I to r. Which shape has such a weight?",
)
known.change(
    "exchanged",
    ('lora_A.weight"] = a', 'lora_A.weight"] = b'),
    ('lora_B.weight"] = b', 'lora_B.weight"] = a'),
    fact="PEFT's A and B are exchanged",
    question="Which of the two does x meet first?",
)
known.change(
    "alpha-as-scale",
    ('"scale": adapter.scale', '"scale": adapter.alpha'),
    fact="mlx-lm's scale is alpha instead of alpha / r",
    question="mlx-lm multiplies the update by scale and by nothing else. Which number is that?",
)
known.change(
    "scale-as-alpha",
    ('"lora_alpha": adapter.alpha', '"lora_alpha": adapter.scale'),
    fact="PEFT's lora_alpha is alpha / r, which PEFT divides by r once more",
    question="What does PEFT do with lora_alpha?",
)
known.change(
    "alpha-as-an-int",
    ('"lora_alpha": adapter.alpha', '"lora_alpha": int(adapter.alpha)'),
    fact="PEFT's lora_alpha is alpha without its fraction",
    question="alpha is 2.5. By which factor does PEFT multiply B A?",
)
known.change(
    "full-names-as-modules",
    ('{name.rpartition(".")[2] for name in names}', "set(names)"),
    fact="target_modules are whole names instead of their last parts",
    question="How many entries has target_modules if q_proj is adapted in 28 layers?",
)
known.change(
    "one-digit-of-a-layer",
    ('r"^model\\.layers\\.\\d+\\."', 'r"^model\\.layers\\.\\d\\."'),
    fact="mlx-lm's keys lose the number of a layer only if it has one digit",
    question="What is the key of model.layers.11.mlp.down_proj?",
)
known.change(
    "two-digits-of-a-layer",
    ('r"^model\\.layers\\.\\d+\\."', 'r"^model\\.layers\\.\\d\\d?\\."'),
    fact="mlx-lm's keys lose the number of a layer only if it has at most two digits",
    question="Llama 3.1 405B has 126 layers. What is the key of the last one's down_proj?",
)
known.change(
    "a-prefix-of-fixed-length",
    ('re.sub(r"^model\\.layers\\.\\d+\\.", "", name)', 'name[len("model.layers.0.") :]'),
    fact="mlx-lm's keys are the names from a fixed position on, whatever the layer's number",
    question="How many characters come before self_attn in a name of layer 7, and how many in a name of layer 11?",
)
known.change(
    "characters-for-a-prefix",
    ('re.sub(r"^model\\.layers\\.\\d+\\.", "", name)', 'name.lstrip("model.layers.0123456789")'),
    fact="mlx-lm's keys lose all leading characters that occur in model.layers. or in a number",
    question="What does 'self_attn'.lstrip('model') return?",
)
known.change(
    "last-parts-as-keys",
    (
        '{re.sub(r"^model\\.layers\\.\\d+\\.", "", name) for name in names}',
        '{name.rpartition(".")[2] for name in names}',
    ),
    fact="mlx-lm's keys are the last parts of the names, without self_attn or mlp",
    question="How does mlx-lm's model name q_proj within a layer?",
)
known.change(
    "number-of-layers",
    ('"num_layers": -1, "lora_parameters"', '"num_layers": len(names), "lora_parameters"'),
    fact="num_layers is a count instead of -1: mlx-lm would adapt so many layers, from the last",
    question="mlx-lm counts num_layers from the end of the model. Do you know how many there are?",
)
known.change(
    "rank-from-b",
    ('"r": adapter.rank', '"r": len(pairs[names[0]][1])'),
    fact="PEFT's r is B's first dimension, O, instead of the rank",
    question="B is O x r. Which of its dimensions is the rank?",
)
known.change(
    "folder-first",
    ("names = adapter.projections", "names = adapter.projections\nfolder.mkdir(parents=True, exist_ok=True)"),
    fact="the folder is created before the form is checked",
    question="What is left on the disk after form='gguf'?",
)


@known.accepted("tensors from a table of names")
def by_table(folder, adapter, form):
    tables = {
        "peft": ("adapter_model.safetensors", "base_model.model.{}.lora_{}.weight", str.upper, lambda w: w),
        "mlx-lm": ("adapters.safetensors", "{}.lora_{}", str.lower, mx.transpose),
    }
    if form not in tables:
        raise ValueError(form)
    file, name, case, lay = tables[form]
    weights = {name.format(key[:-7], case(key[-1])): lay(w) for key, w in adapter.weights.items()}
    rank = next(w.shape[0] for key, w in adapter.weights.items() if key.endswith("a"))
    within = sorted({re.split(r"\.\d+\.", key[:-7])[-1] for key in adapter.weights})
    if form == "peft":
        modules = sorted({key.split(".")[-1] for key in within})
        config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": adapter.alpha}
        config["target_modules"] = modules
    else:
        parameters = {"rank": rank, "scale": adapter.alpha / rank, "dropout": 0.0, "keys": within}
        config = {"fine_tune_type": "lora", "num_layers": -1, "lora_parameters": parameters}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / file), weights)
    (folder / "adapter_config.json").write_text(json.dumps(config))

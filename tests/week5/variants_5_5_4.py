"""Known programs of task 5.5.4, loading an adapter."""

import json
import tempfile
from pathlib import Path

import mlx.core as mx
from tests.week5.adapters import DOWN11, FILES, Q0, V0, config_of, drawn, tensors_of, write
from tiny_llm_solution.lora.adapter import Adapter

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.5.4")


def loaded(program, form, seed=1, rank=2, alpha=3.0, names=(Q0, V0, DOWN11), without_entry="", **more):
    """Return the names as numbers, alpha, and the arrays."""
    with tempfile.TemporaryDirectory() as folder:
        weights = drawn(seed, names, rank)
        config = config_of(form, rank, alpha, **more)
        config.pop(without_entry, None)
        write(Path(folder), form, tensors_of(form, weights), config)
        adapter = program(Path(folder))
        found = dict(sorted(adapter.weights.items()))
        mx.eval(found)
        return mx.array([*" ".join(found).encode()]), mx.array(float(adapter.alpha)), *found.values()


def both_files(program, form):
    """Return the arrays that are loaded from a folder with both forms' files and one form's config, or the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate([name for name in FILES if name != form] + [form]):
            write(Path(folder), each, tensors_of(each, drawn(7 + number, (V0,))), config_of(each, 2, 3.0))
        if refused := refusal(lambda: program(Path(folder)) and None):
            return mx.array(refused)
        found = dict(sorted(program(Path(folder)).weights.items()))
        mx.eval(found)
        return (*found.values(),)


def refused(program, form, change=lambda weights, tensors: None, **more):
    """Return whether a folder is refused."""
    with tempfile.TemporaryDirectory() as folder:
        weights = drawn(5, (Q0, V0))
        change(weights, None)
        tensors = tensors_of(form, weights)
        change(None, tensors)
        write(Path(folder), form, tensors, config_of(form, 2, 3.0) | more)
        return refusal(lambda: program(Path(folder)))


def without(name):
    def change(weights, tensors):
        if weights is not None:
            del weights[name]

    return change


def wide(which):
    def change(weights, tensors):
        for name in [f"{V0}.lora_{letter}" for letter in which if weights is not None]:
            weights[name] = drawn(6, (V0,), 3)[name]

    return change


def plus(name):
    def change(weights, tensors):
        if tensors is not None:
            tensors[name] = mx.ones((2, 7))

    return change


known.probe_table(
    peft=lambda program: loaded(program, "peft"),
    mlx_lm=lambda program: loaded(program, "mlx-lm"),
    peft_rank_4=lambda program: loaded(program, "peft", 3, 4, 8.0),
    mlx_lm_rank_4=lambda program: loaded(program, "mlx-lm", 3, 4, 8.0),
    square=lambda program: loaded(program, "mlx-lm", 4, 5, 1.0, (Q0,)),
    peft_of_both=lambda program: both_files(program, "peft"),
    mlx_lm_of_both=lambda program: both_files(program, "mlx-lm"),
    older_mlx_lm=lambda program: loaded(program, "mlx-lm", without_entry="fine_tune_type"),
    rslora=lambda program: loaded(program, "peft", rank=4, use_rslora=True),
    rslora_off=lambda program: loaded(program, "peft", rank=4, use_rslora=False),
    refused_dora=lambda program: mx.array([refused(program, "peft", use_dora=True), refused(program, "peft")]),
    refused_bias=lambda program: mx.array([refused(program, "peft", bias="all"), refused(program, "peft")]),
    refused_others=lambda program: mx.array(
        [
            refused(program, "peft", fan_in_fan_out=True),
            refused(program, "peft", modules_to_save=["lm_head"]),
            refused(program, "peft"),
        ]
    ),
    refused_patterns=lambda program: mx.array(
        [refused(program, "peft", alpha_pattern={"q_proj": 8}), refused(program, "peft", rank_pattern={"q_proj": 8})]
    ),
    refused_kinds=lambda program: mx.array(
        [refused(program, "peft", peft_type="IA3"), refused(program, "mlx-lm", fine_tune_type="dora")]
    ),
    refused_names=lambda program: mx.array(
        [
            refused(program, "peft", plus(f"base_model.model.{V0}.lora_magnitude_vector")),
            refused(program, "mlx-lm", plus(f"{V0}.m")),
            refused(program, "peft", plus(f"{V0}.lora_A.weight")),
        ]
    ),
    refused_halves=lambda program: mx.array(
        [refused(program, form, without(f"{V0}.lora_{x}")) for form in FILES for x in "ab"]
    ),
    refused_ranks=lambda program: mx.array([refused(program, form, wide(x)) for form in FILES for x in "ab"]),
    refused_rank_of_both=lambda program: mx.array([refused(program, form, wide("ab")) for form in FILES]),
)
known.not_timed("reading a file takes as long as the disk")

known.change(
    "not-transposed",
    ('w if "peft_type" in config else w.T', "w"),
    ("if w.shape[0 if", "if w.shape[(0 if"),
    (' == "a" else 1] != rank', ' == "a" else 1) if "peft_type" in config else (1 if which == "a" else 0)] != rank'),
    fact="mlx-lm's matrices remain I x r and r x O",
    question="Which shape has lora_a in `Adapter.weights`, and which in mlx-lm's file?",
)
known.change(
    "rank-of-the-other-axis",
    ('w if "peft_type" in config else w.T', "w"),
    fact="mlx-lm's matrices are not transposed, and the rank is compared with their other axis",
    question="Which of the two axes of lora_a is r in mlx-lm's file, and which in PEFT's?",
)
known.change(
    "scale-divided",
    ('config["lora_parameters"]["scale"] * rank', 'config["lora_parameters"]["scale"] / rank'),
    fact="mlx-lm's scale is divided by r",
    question="Your layer multiplies by alpha / r, mlx-lm by scale. Which alpha makes the two equal?",
)
known.change(
    "scale-as-alpha",
    ('config["lora_parameters"]["scale"] * rank', 'config["lora_parameters"]["scale"]'),
    fact="mlx-lm's scale becomes alpha, so that it is divided by r once more",
    question="Your layer multiplies by alpha / r, mlx-lm by scale. Which alpha makes the two equal?",
)
known.change(
    "alpha-divided",
    ('float(config["lora_alpha"] * ', 'float(config["lora_alpha"] / rank * '),
    fact="PEFT's lora_alpha is divided by r already here",
    question="Where does your layer divide alpha by r?",
)
known.change(
    "rslora-ignored",
    ('(rank**0.5 if config.get("use_rslora") else 1)', "1"),
    fact="use_rslora is ignored",
    question="rsLoRA's factor is lora_alpha / sqrt(r). Which alpha gives it, divided by r?",
)
known.change(
    "rslora-the-other-way",
    ("rank**0.5 if", "rank**-0.5 if"),
    fact="rsLoRA's lora_alpha is divided by the root of r instead of multiplied",
    question="rsLoRA's factor is lora_alpha / sqrt(r). Which alpha gives it, divided by r?",
)
known.change(
    "rslora-if-mentioned",
    ('if config.get("use_rslora")', 'if "use_rslora" in config'),
    fact="use_rslora counts as true even if the config says false",
    question="PEFT writes all of its settings. What does its config say about use_rslora in an ordinary adapter?",
)
known.change(
    "decided-by-pefts-file",
    ('if "peft_type" in config:', 'if (folder / "adapter_model.safetensors").exists() and _of_peft(config):'),
    fact="a folder with PEFT's file is loaded as PEFT's, whatever its config says",
    question="A folder has the files of both formats. What decides which one is used?",
)
known.change(
    "pefts-file-needs-pefts-config",
    (
        'if "peft_type" in config:',
        'if "lora_parameters" in config and (folder / "adapter_model.safetensors").exists():\n'
        '    raise ValueError("no peft_type")\n'
        'if "peft_type" in config:',
    ),
    fact="a folder with PEFT's file must have PEFT's config",
    question="A folder has the files of both formats. What decides which one is used?",
)
known.change(
    "decided-by-mlx-lms-file",
    ('if "peft_type" in config:', 'if not (folder / "adapters.safetensors").exists() and "peft_type" in config:'),
    (
        'elif "lora_parameters" in config:',
        'elif (folder / "adapters.safetensors").exists() or "lora_parameters" in config:',
    ),
    fact="a folder with mlx-lm's file is loaded as mlx-lm's, whatever its config says",
    question="A folder has the files of both formats. What decides which one is used?",
)
known.change(
    "fine-tune-type-needed",
    ('config.get("fine_tune_type", "lora")', 'config.get("fine_tune_type")'),
    fact="a config of mlx-lm without fine_tune_type is refused",
    question="mlx-lm once had only one kind of adapter. What did its config say about the kind?",
)
known.change(
    "b-rank-not-checked",
    ("] != rank:", '] != rank and which == "a":'),
    fact="only A's rank is compared with the config's, not B's",
    question="A has r rows. How many columns must B have?",
)
known.change(
    "rank-of-the-pair",
    ("] != rank:", "] == -1:"),
    (
        '("b" if name.endswith("a") else "a")) not in weights',
        '("b" if name.endswith("a") else "a")) not in weights'
        ' or weights[name].shape["ab".index(name[-1])] != weights[other].shape["ab".index(other[-1])]',
    ),
    fact="A's rank is compared with B's, and neither with the config's",
    question="The config says r = 2, and A and B have rank 3. By which r is alpha divided?",
)
known.change(
    "prefix-optional",
    (r"base_model\.model\.(.+)\.lora_", r"(?:base_model\.model\.)?(.+)\.lora_"),
    fact="a tensor of PEFT may lack the prefix base_model.model",
    question="Which names does the format have, from the first character on?",
)
known.change(
    "dora-accepted",
    ("for entry, only in PEFT_DEFAULTS.items():", 'for entry, only in {**PEFT_DEFAULTS, "use_dora": True}.items():'),
    ("if (config.get(entry) or only) != only:", "if entry != 'use_dora' and (config.get(entry) or only) != only:"),
    fact="an adapter of DoRA is loaded as one of LoRA",
    question="What does use_dora: true change in the layer?",
)
known.change(
    "bias-accepted",
    ("if (config.get(entry) or only) != only:", 'if entry != "bias" and (config.get(entry) or only) != only:'),
    fact="an adapter with trained biases is loaded without them",
    question="What does bias: all mean for the layers?",
)
known.change(
    "patterns-accepted",
    ("if config.get(entry):", "if False:"),
    fact="rank_pattern and alpha_pattern are ignored",
    question="alpha_pattern gives some projections an alpha of their own. Which one do they get?",
)
known.change(
    "kinds-accepted",
    ('if config["peft_type"] != "LORA":', "if False:"),
    ('if (kind := config.get("fine_tune_type", "lora")) != "lora":', "if False:"),
    fact="other kinds of adapters than LoRA are not refused",
    question="What are the tensors of peft_type IA3?",
)
known.change(
    "other-tensors-skipped",
    ('raise ValueError(f"{tensor} is not a tensor of this form of LoRA")', "continue"),
    fact="tensors of other names are skipped",
    question="An adapter has a vector of magnitudes beside A and B. Is it the same adapter without?",
)
known.change(
    "halves-accepted",
    ('("b" if name.endswith("a") else "a")) not in weights', '("b" if name.endswith("a") else "a")) == ""'),
    fact="an A without a B, or a B without an A, is not refused",
    question="A tensor was lost. When do you want to know?",
)
known.change(
    "rank-not-checked",
    ("] != rank:", "] == -1:"),
    fact="matrices of another rank than the config's are not refused",
    question="The config says r = 2, and a matrix has 3 rows. By which r is alpha divided?",
)
known.together("rank-of-the-other-axis", "rank-not-checked", makes="not-transposed")


@known.accepted("a table of forms")
def by_table(folder):
    config = json.loads((folder / "adapter_config.json").read_text())
    peft, other = "peft_type" in config, "lora_parameters" in config
    if not (peft or other):
        raise ValueError("neither form")
    off = ("use_dora", "fan_in_fan_out", "modules_to_save", "rank_pattern", "alpha_pattern")
    for name in off if peft else ():
        if config.get(name):
            raise ValueError(name)
    for name, only in (("peft_type", "LORA"), ("bias", "none")) if peft else (("fine_tune_type", "lora"),):
        if config.get(name, only) != only:
            raise ValueError(name)
    rank = config["r"] if peft else config["lora_parameters"]["rank"]
    factor = config["lora_parameters"]["scale"] if other else config["lora_alpha"] / rank
    if peft and config.get("use_rslora"):
        factor = config["lora_alpha"] / rank**0.5
    begin, end = ("base_model.model.", ".weight") if peft else ("", "")
    weights = {}
    for tensor, w in mx.load(str(folder / FILES["peft" if peft else "mlx-lm"])).items():
        name, _, which = tensor.removeprefix(begin).removesuffix(end).rpartition(".lora_")
        if tensor != f"{begin}{name}.lora_{which}{end}" or which not in (("A", "B") if peft else ("a", "b")):
            raise ValueError(tensor)
        laid = w if peft else w.T
        if laid.shape["ab".index(which.lower())] != rank:
            raise ValueError(tensor)
        weights[f"{name}.lora_{which.lower()}"] = laid
    names = {name[:-1] for name in weights}
    if lost := [name for name in names if not {f"{name}a", f"{name}b"} <= weights.keys()]:
        raise ValueError(lost[0])
    return Adapter(weights, factor * rank)

"""Every family of models in every stage, beside transformers and mlx-lm: full precision, and folders that mlx-lm packs.

For maintainers and CI, which have both libraries; a learner's installation has neither.
"""

import importlib
import shutil

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkpoint_folders import write_checkpoint
from tests.course.further_models import EXPERTS, LLAMA3, of_config
from tests.week1.reference_model import QWEN3, QWEN25

from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.engine.serving import Limits, load_scheduler
from tiny_llm_course.engine.stages import runnable
from tiny_llm_course.programs.packages import SOLUTION_NAME, LearnerError
from tiny_llm_course.testkit.rounding import to_float64

pytestmark = pytest.mark.maintainers
transformers = pytest.importorskip("transformers", reason="not run here: needs transformers (pdm run dev-setup)")
torch, mlx_lm = pytest.importorskip("torch"), pytest.importorskip("mlx_lm")
TABLE = "model.embed_tokens.weight"
PROMPT, COUNT, GROUP = [5, 6, 7], 64, 32  # with 67 tokens, past the 16 that Llama 3.1's RoPE is scaled from
WIDE = {
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
}
LLAMA = {"model_type": "llama", "rope_theta": 500000.0, "num_hidden_layers": 2}
FAMILIES = {
    "llama-3": (QWEN25, LLAMA),  # its file has no head_dim
    "llama-3.1": (QWEN25, {**LLAMA, "rope_scaling": LLAMA3}),
    "llama-3.2": (QWEN25, {**LLAMA, "rope_scaling": {**LLAMA3, "factor": 32.0}, "tie_word_embeddings": True}),
    "mistral": (QWEN25, {"model_type": "mistral", "sliding_window": None}),
    "qwen2.5": (QWEN25, {}),
    "qwen3": (QWEN3, {}),
    "qwen3-moe": (QWEN3, {"model_type": "qwen3_moe", **EXPERTS, "moe_intermediate_size": 64}),
}
STAGES = [stage.name for stage in runnable(load_course().stages(), True)]
PACKED = [stage.name for stage in runnable(load_course().stages(), True) if stage.packed]
by_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu():
    """The one device that every machine has, with the same arithmetic everywhere."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder a family. Small embeddings: a tied head that meets large ones repeats the last token for ever."""
    top = tmp_path_factory.mktemp("families")
    for name, (base, changes) in FAMILIES.items():
        model = of_config(base, 3, **{**WIDE, **changes})
        without = {"head_dim": None} if name == "llama-3" else {}
        write_checkpoint(top / name, model.with_weights(**{TABLE: 0.05 * model.weights[TABLE]}), config=without)
    return top


def packed_by_mlx_lm(folder, to, bits):
    """The folder that mlx-lm makes of another one, and its model."""
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    model, config = quantize_model(*load_model(folder), GROUP, bits)
    save_model(to, model)
    save_config(config, to / "config.json")
    shutil.copy(folder / "tokenizer.json", to)
    return model


def stages_of(family, packed=False):
    """The stages that keep the weights' precision."""
    if family == "qwen3-moe":
        return ["further"]
    return ["kv-cache", *PACKED, "further"] if packed else [name for name in STAGES if name not in PACKED] + ["further"]


def assert_alike(folder, stages, theirs):
    """Each stage's logits are theirs to 1e-5, and all write the same greedy text, each token of it their likeliest.

    A stage that recomputes the sequence for each token writes what these logits say.
    """
    engines = [load_engine(str(folder), True, "float32", stage) for stage in stages]
    text = list(engines[-1].likeliest(PROMPT, COUNT))
    row, answers = mx.array([PROMPT + text]), slice(len(PROMPT) - 1, -1)
    logits = theirs(row)
    assert np.argmax(logits[0, answers], axis=-1).tolist() == text
    assert len(set(text)) > 2, "a model that repeats a few tokens shows nothing"
    for engine in engines:
        ours = to_float64(engine.logits(row))
        assert np.abs(ours - logits).max() <= 1e-5, engine.stage.name
        assert np.argmax(ours[0, answers], axis=-1).tolist() == text, engine.stage.name
        if engine is not engines[-1] and not engine.stage.rereads:
            assert list(engine.likeliest(PROMPT, COUNT)) == text, engine.stage.name


@by_family
def test_logits_and_texts_are_those_of_transformers(folders, family):
    model = transformers.AutoModelForCausalLM.from_pretrained(folders / family, dtype=torch.float32).eval()

    def theirs(tokens):
        with torch.no_grad():
            return model(torch.from_numpy(np.array(tokens)).long()).logits.double().numpy()

    assert_alike(folders / family, stages_of(family), theirs)


@by_family
@pytest.mark.parametrize("bits", [4, 8])
def test_packed_folders_compute_what_mlx_lm_computes(folders, tmp_path, family, bits):
    model = packed_by_mlx_lm(folders / family, tmp_path, bits)
    stages = stages_of(family, packed=True)
    if bits == 8:  # which the kernels leave to the stage before them
        stages = stages[1:2] + stages[-2:-1] or stages
    assert_alike(tmp_path, stages, lambda tokens: to_float64(model(tokens)))


@pytest.mark.parametrize("family", ["llama-3.2", "mistral"])
def test_served_texts_are_those_of_the_stages(folders, family):
    text = list(load_engine(str(folders / family), True, "float32", "kv-cache").likeliest(PROMPT, 24))
    for mode in (mode for mode in load_course().modes() if mode.name not in ("int8", "metal")):
        engine = load_scheduler(str(folders / family), True, mode.name, Limits(max_num_seqs=2), "float32")
        request = importlib.import_module(f"{SOLUTION_NAME}.serving.request").Request(PROMPT, 24)
        engine.scheduler.submit(request)
        while engine.scheduler.running or engine.scheduler.waiting:
            engine.scheduler.step()
        assert request.output == text, mode.name


def test_a_draft_model_whose_rope_is_scaled_otherwise_is_refused(folders):
    models = [str(folders / name) for name in ("llama-3.1", "llama-3.2")]
    with pytest.raises(UsageError, match="cannot be served: the draft model has the same RoPE"):
        load_scheduler(models[0], True, "speculative", dtype="float32", draft=models[1])


def test_a_rope_that_scaling_cannot_reach_is_refused(folders, monkeypatch):
    """A learner's class that computes its angles itself would ignore the scaling."""
    rope = importlib.import_module(f"{SOLUTION_NAME}.positional_encoding")
    monkeypatch.setattr(rope, "_tables", lambda *_: (mx.zeros((96, 16)), mx.zeros((96, 16))))
    with pytest.raises(LearnerError, match="does not call rotation_angles and cannot scale"):
        load_engine(str(folders / "llama-3.2"), True, "float32", "week1")
    load_engine(str(folders / "llama-3"), True, "float32", "week1")

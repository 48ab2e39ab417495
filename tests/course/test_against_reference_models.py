"""The solution beside the libraries that people run: mlx-lm and transformers, on the same random weights.

For maintainers and CI, which have both libraries; a learner's installation has neither.
"""

import importlib
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from tests.week1.reference_model import QWEN3, QWEN25, ReferenceModel, model64, random_model, random_tokens

from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.rounding import Array64, rounding, to_float64, tolerance

load_solution()
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.qwen3 import Qwen3Model  # noqa: E402

pytestmark = pytest.mark.maintainers
by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
by_library = pytest.mark.parametrize("library", ["mlx_lm", "transformers"])
by_dtype = pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
TABLE = "model.embed_tokens.weight"
FLOAT32_DISTANCE = 1e-4


@pytest.fixture(autouse=True)
def on_the_cpu():
    """The one device that every machine has, with the same arithmetic everywhere."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def needed(name: str) -> Any:
    """A library's module, or a skip that says what is missing."""
    library = name.partition(".")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"not run here: {library} is not installed")
    return importlib.import_module(name)


def solution(model: ReferenceModel) -> Any:
    return Qwen3Model(ModelConfig.from_dict(model.config), model.weights)


def mlx_lm(model: ReferenceModel) -> Any:
    module = needed(f"mlx_lm.models.{model.config['model_type']}")
    theirs = module.Model(module.ModelArgs.from_dict(model.config))
    theirs.load_weights(list(model.weights.items()), strict=True)
    return theirs


def transformers_logits(model: ReferenceModel, tokens: mx.array) -> Array64:
    torch = needed("torch")
    transformers = needed("transformers")
    prefix = {"qwen3": "Qwen3", "qwen2": "Qwen2"}[model.config["model_type"]]
    config = getattr(transformers, f"{prefix}Config")(**model.config)
    theirs = getattr(transformers, f"{prefix}ForCausalLM")(config).eval()
    weights = {name: torch.from_numpy(np.array(w.astype(mx.float32))) for name, w in model.weights.items()}
    if model.config["tie_word_embeddings"]:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    theirs.load_state_dict(weights, strict=True)
    dtype = {mx.float32: torch.float32, mx.bfloat16: torch.bfloat16}[model.dtype]
    with torch.no_grad():
        logits = theirs.to(dtype)(torch.from_numpy(np.array(tokens)).long()).logits
    return np.asarray(logits.double().numpy())


def allowed(model: ReferenceModel, tokens: mx.array) -> float:
    """In float32 a fixed distance, else what `rounding` allows for the dtype's own error on these inputs."""
    if model.dtype == mx.float32:
        return FLOAT32_DISTANCE
    ids = np.array(tokens)
    return tolerance(model64(ids, model), model64(ids, model, r=rounding(model.dtype)), model.dtype)


@by_library
@by_architecture
@by_head
@by_dtype
def test_logits_agree(dtype, tied, base, library):
    model, tokens = random_model(base, 1, dtype, tie_word_embeddings=tied), random_tokens(1, 3, 11)
    theirs = to_float64(mlx_lm(model)(tokens)) if library == "mlx_lm" else transformers_logits(model, tokens)
    ours = solution(model)(tokens)
    assert ours.dtype == dtype
    assert ours.shape == theirs.shape
    distance = np.abs(to_float64(ours) - theirs).max()
    assert distance <= allowed(model, tokens)


@by_architecture
@by_head
def test_greedy_continuations_are_those_of_mlx_lm(tied, base):
    """Sixty-four tokens, each the most likely one, after each of two prompts."""
    model = random_model(base, 2, tie_word_embeddings=tied)
    # Small embeddings: a tied head that meets large ones at its end repeats the last token for ever.
    model = model.with_weights(**{TABLE: 0.2 * model.weights[TABLE]})
    prompt = random_tokens(2, 2, 5)

    def greedy(run):
        tokens = prompt
        for _ in range(64):
            tokens = mx.concatenate([tokens, mx.argmax(run(tokens)[:, -1:], axis=-1).astype(mx.int32)], axis=1)
        return tokens[:, 5:].tolist()

    continued = greedy(solution(model))
    assert continued == greedy(mlx_lm(model))
    assert min(len(set(row)) for row in continued) > 1, "a model that repeats one token shows nothing"


def test_what_is_compared_can_differ():
    """The distance that is allowed is far smaller than that of a model with another theta."""
    model, tokens = random_model(QWEN3, 3), random_tokens(3, 3, 11)
    other = ReferenceModel({**model.config, "rope_theta": 10000.0}, model.weights)
    distance = np.abs(to_float64(solution(model)(tokens)) - to_float64(solution(other)(tokens))).max()
    assert distance > 100 * FLOAT32_DISTANCE

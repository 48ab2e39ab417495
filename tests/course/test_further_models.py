"""The engine `further` beside transformers and mlx-lm, on the same random weights, read from the same folders.

For maintainers and CI, which have both libraries; a learner's installation has neither.
"""

import importlib

import mlx.core as mx
import numpy as np
import pytest
from tests.course.further_models import CHANGES, ORIGINAL, further, stacked
from tests.week1.reference_model import random_tokens

from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.testkit.rounding import to_float64

TABLE = "model.embed_tokens.weight"
LENGTH = 23  # past every window, and past the length that a scaled model was trained with
by_name = pytest.mark.parametrize("name", CHANGES)


@pytest.fixture(autouse=True)
def on_the_cpu():
    """The one device that every machine has, with the same arithmetic everywhere."""
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def needed(name):
    library = name.partition(".")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"not run here: {library} is not installed")
    return importlib.import_module(name)


def ours(folder):
    return load_engine(str(folder), solution=True, dtype="float32", stage="further")


def transformers_model(folder):
    transformers, torch = needed("transformers"), needed("torch")
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def transformers_logits(folder, tokens):
    torch = needed("torch")
    with torch.no_grad():
        return transformers_model(folder)(torch.from_numpy(np.array(tokens)).long()).logits.double().numpy()


@by_name
def test_logits_are_those_of_transformers(checkpoint, name):
    model, tokens = further(name), random_tokens(1, 2, LENGTH)
    folder = checkpoint(model)
    logits = to_float64(ours(folder).logits(tokens))
    assert np.abs(logits - transformers_logits(folder, tokens)).max() <= 1e-4


@pytest.mark.parametrize("name", [name for name in CHANGES if "experts" in name and "windows" not in name])
@pytest.mark.parametrize("form", [lambda model: model, stacked], ids=["one by one", "stacked"])
def test_logits_are_those_of_mlx_lm(checkpoint, name, form):
    needed("mlx_lm")
    from mlx_lm.utils import load_model

    folder, tokens = checkpoint(form(further(name))), random_tokens(1, 2, LENGTH)
    theirs, _ = load_model(folder)
    assert np.abs(to_float64(ours(folder).logits(tokens)) - to_float64(theirs(tokens))).max() <= 1e-4


def test_a_folder_that_transformers_has_written_is_read(checkpoint, tmp_path):
    model, tokens = further("experts"), random_tokens(1, 2, LENGTH)
    folder = checkpoint(model)
    expected = to_float64(ours(folder).logits(tokens))
    written = transformers_model(folder)
    again = tmp_path / "again"
    written.save_pretrained(again)
    (again / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    assert np.abs(to_float64(ours(again).logits(tokens)) - expected).max() <= 1e-5


@by_name
def test_what_is_written_with_caches_is_what_is_written_without(checkpoint, name):
    """Greedy, past every window. With dynamic scaling, each token past the trained length changes all before it."""
    model = further(name)
    engine = ours(checkpoint(model.with_weights(**{TABLE: 0.2 * model.weights[TABLE]})))
    tokens, count = [5, 6, 7], ORIGINAL - 3 if "dynamic" in name else 24
    cached = list(engine.likeliest(tokens, count))
    for _ in range(count):
        tokens = [*tokens, mx.argmax(engine.logits(mx.array([tokens]))[0, -1]).item()]
    assert cached == tokens[3:]
    assert len(set(cached)) > 3, "a model that repeats a few tokens shows nothing"


@by_name
@pytest.mark.parametrize("cuts", [(1,), (4, 5, 6), (11, 12), (22,)], ids=str)
def test_a_text_in_parts_is_the_whole_text(checkpoint, name, cuts):
    if "dynamic" in name:
        cuts = tuple(cut for cut in cuts if cut < ORIGINAL)
    engine, tokens = ours(checkpoint(further(name))), random_tokens(1, 2, ORIGINAL if "dynamic" in name else LENGTH)
    whole, caches = engine.logits(tokens), engine.model.new_caches()
    ends = [*cuts, tokens.shape[1]]
    parts = [engine.model(tokens[:, a:b], caches, all_positions=True) for a, b in zip([0, *cuts], ends, strict=True)]
    assert mx.abs(mx.concatenate(parts, axis=1) - whole).max() <= 1e-4


def test_with_dynamic_scaling_queries_and_keys_have_the_paces_of_one_length(checkpoint):
    """In a model of one layer, whose keys depend on the tokens alone, the last logits are those of the whole."""
    engine = ours(checkpoint(further("qwen2.5, dynamic", num_hidden_layers=1)))
    tokens, caches = random_tokens(1, 1, LENGTH), engine.model.new_caches()
    for number in range(LENGTH):
        last = engine.model(tokens[:, number : number + 1], caches)
    assert mx.abs(last - engine.logits(tokens)[:, -1:]).max() <= 1e-4


@pytest.mark.parametrize("sinks", [1, 3])
def test_sinks_are_seen_besides_the_window(checkpoint, sinks):
    """A mask of all that each token may see, in a model of one layer, by hand."""
    model = further("qwen3, windows by layer types", num_hidden_layers=1, layer_types=["sliding_attention"])
    folder, tokens = checkpoint(model, config={"attention_sinks": sinks}), random_tokens(1, 1, LENGTH)
    engine = ours(folder)
    whole, without = engine.logits(tokens), ours(checkpoint(model)).logits(tokens)
    within = 4
    assert mx.abs(whole[:, :within] - without[:, :within]).max() <= 1e-5
    assert mx.abs(whole[:, within + sinks :] - without[:, within + sinks :]).max() > 1e-2
    first = tokens[:, :sinks]
    for end in (within + sinks, LENGTH):  # a token sees the sinks and its window, whatever is between
        between = random_tokens(9, 1, end - within - sinks)
        changed = mx.concatenate([first, between, tokens[:, end - within : end]], axis=1)
        assert mx.abs(engine.logits(changed)[:, -1] - whole[:, end - 1]).max() <= 1e-5

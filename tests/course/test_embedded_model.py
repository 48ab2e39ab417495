"""The models that come with the course: what their cards say holds, here and in mlx-lm and transformers."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import publish
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kneser_ney import KneserNey
from tests.week1.formulas import softmax64
from tests.week1.reference_model import ReferenceModel, model64

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.checkpoints.held_out import shipped_stories
from tiny_llm_course.engine.broken import as_rows, mark_of, nats_per_token
from tiny_llm_course.engine.engine import Sampling, load_engine
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS

pytestmark = pytest.mark.maintainers
DRAFT, ON_TOPIC = MODELS / "tiny-qwen3-draft", MODELS / "on-topic"
both = pytest.mark.parametrize("folder", [EMBEDDED_MODEL, DRAFT], ids=lambda folder: folder.name)


def record(folder: Path = EMBEDDED_MODEL) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    return data


@pytest.fixture(scope="module")
def engine():
    return load_engine(None, solution=True, dtype="float32", stage="week1")


@pytest.fixture(scope="module")
def story(engine) -> list[int]:
    """The beginning of one that it wrote."""
    ids: list[int] = engine.encode("<|endoftext|>" + record()["samples"]["1"])[:160]
    return ids


def loss(model, ids: list[int]) -> float:
    """Nats a token."""
    logits = model(mx.array([ids[:-1]]))[0].astype(mx.float32)
    chosen = mx.take_along_axis(logits, mx.array(ids[1:])[:, None], axis=-1)[:, 0]
    return float(np.array(mx.logsumexp(logits, axis=-1) - chosen).mean())


def test_they_are_small():
    size = {folder: sum(f.stat().st_size for f in folder.iterdir()) for folder in (EMBEDDED_MODEL, DRAFT)}
    assert sum(size.values()) <= 12e6
    assert size[DRAFT] <= 2e6


@both
def test_they_have_what_makes_a_qwen3(folder):
    c = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert c["model_type"] == "qwen3"
    assert c["rope_theta"] == c["rope_parameters"]["rope_theta"] == 1e6
    assert c["tie_word_embeddings"]
    assert c["num_key_value_heads"] < c["num_attention_heads"]
    assert c["head_dim"] != c["hidden_size"] / c["num_attention_heads"]
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    assert "model.layers.0.self_attn.q_norm.weight" in weights
    assert all(w.dtype == mx.bfloat16 for w in weights.values())
    assert all(w.shape[-1] % 64 == 0 for w in weights.values() if w.ndim == 2)
    assert record(folder)["weights"] == sum(w.size for w in weights.values())


def test_both_have_one_tokenizer():
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (EMBEDDED_MODEL / name).read_bytes() == (DRAFT / name).read_bytes()


@both
def test_the_logits_are_those_of_mlx_lm(folder, story):
    utils = pytest.importorskip("mlx_lm.utils", reason="not run here: mlx-lm is not installed")
    theirs = utils.load_model(folder)[0]
    theirs.set_dtype(mx.float32)
    tokens = mx.array([story[:40]])
    mine = load_engine(str(folder), solution=True, dtype="float32", stage="kv-cache").logits(tokens)
    assert mx.abs(mine - theirs(tokens)).max().item() < 1e-3


@both
def test_the_logits_are_those_of_transformers(folder, story):
    torch = pytest.importorskip("torch", reason="not run here: PyTorch is not installed")
    transformers = pytest.importorskip("transformers", reason="not run here: transformers is not installed")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    with torch.no_grad():
        expected = theirs(torch.tensor([story[:40]])).logits.numpy()
    mine = load_engine(str(folder), solution=True, dtype="float32", stage="kv-cache").logits(mx.array([story[:40]]))
    assert np.abs(np.array(mine) - expected).max() < 1e-3


def test_transformers_renders_the_chat_as_the_course_does(engine):
    transformers = pytest.importorskip("transformers", reason="not run here: transformers is not installed")
    talk = [
        {"role": "user", "content": "Hello!"},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "A frog?"},
    ]
    theirs = transformers.AutoTokenizer.from_pretrained(str(EMBEDDED_MODEL))
    text = render_chat(engine.checkpoint.chat_template, talk)
    assert text == theirs.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert engine.encode(text) == theirs.encode(text, add_special_tokens=False)


@settings(max_examples=8, derandomize=True, deadline=None)
@given(length=st.integers(1, 60), end=st.integers(0, 40))
def test_what_follows_does_not_change_what_came_before(engine, story, length, end):
    whole, part = engine.logits(mx.array([story[: length + end]])), engine.logits(mx.array([story[:length]]))
    assert mx.abs(whole[:, :length] - part).max().item() < 1e-3


@settings(max_examples=8, derandomize=True, deadline=None)
@given(starts=st.lists(st.integers(0, 128), min_size=1, max_size=4), length=st.integers(1, 16))
def test_a_batch_is_one_at_a_time(engine, story, starts, length):
    rows = [story[start : start + length] for start in starts]
    together = engine.logits(mx.array(rows))
    for row, logits in zip(rows, together, strict=True):
        assert mx.abs(engine.logits(mx.array([row]))[0] - logits).max().item() < 1e-3


@pytest.fixture(scope="module")
def of_mlx_lm():
    utils = pytest.importorskip("mlx_lm.utils", reason="not run here: mlx-lm is not installed")
    model = utils.load_model(EMBEDDED_MODEL)[0]
    model.set_dtype(mx.float32)
    return model


@settings(max_examples=8, derandomize=True, deadline=None)
@given(pieces=st.lists(st.integers(1, 12), min_size=1, max_size=6))
@example(pieces=[1] * 24)
def test_mlx_lm_s_cache_changes_nothing(engine, of_mlx_lm, story, pieces):
    """The base of week 2: piece by piece with their cache is all at once with our engine, which has none."""
    from mlx_lm.models.cache import make_prompt_cache

    cache = make_prompt_cache(of_mlx_lm)
    ends = np.cumsum(pieces).tolist()
    parts = [
        of_mlx_lm(mx.array([story[end - size : end]]), cache=cache) for end, size in zip(ends, pieces, strict=True)
    ]
    assert mx.abs(mx.concatenate(parts, axis=1) - engine.logits(mx.array([story[: ends[-1]]]))).max().item() < 1e-3


@pytest.mark.parametrize(("bits", "group", "worse"), [(8, 64, 0.02), (4, 64, 0.2), (4, 32, 0.15)])
def test_it_survives_quantization(engine, story, bits, group, worse):
    """Weights that were packed and unpacked: the loss grows by no more than this many nats a token."""

    def packed(weight: mx.array) -> mx.array:
        if weight.ndim == 1:
            return weight
        return mx.dequantize(*mx.quantize(weight, group, bits), group_size=group, bits=bits)

    weights = {name: packed(w) for name, w in engine.checkpoint.weights.items()}
    model = type(engine.model)(config(engine), weights)
    exact, rough = loss(engine.model, story), loss(model, story)
    assert exact != rough
    assert rough < exact + worse


def config(engine):
    from tiny_llm_solution.config import ModelConfig

    return ModelConfig.from_dict(engine.checkpoint.config)


def test_it_knows_its_kind_of_story(engine, story):
    """On what it wrote itself it is far from guessing, and farther from nonsense."""
    shuffled = [story[0], *np.random.default_rng(0).permutation(story[1:]).tolist()]
    assert loss(engine.model, story) < 2 < math.log(2048) < loss(engine.model, shuffled)


def test_it_begins_and_ends_a_story(engine):
    answer = engine.answer(engine.encode("Once upon a time"), 10, engine.sampler(Sampling(temp=0)))
    assert "".join(answer.pieces).startswith((", there was a", " there was a"))
    whole = record()["samples"]
    assert len(whole) == 5
    assert all(text.startswith("Once upon a time") for text in whole.values())
    ended = [text.rstrip().endswith((".", "!", '"', "?")) for text in whole.values()]
    assert sum(ended) >= 4


def test_it_answers_a_request_for_a_story(engine):
    prompt = render_chat(engine.checkpoint.chat_template, [{"role": "user", "content": "Write a story about a frog."}])
    answer = engine.answer(engine.encode(prompt), 40, engine.sampler(Sampling(temp=0)))
    assert "frog" in "".join(answer.pieces)


def test_the_draft_often_says_what_the_model_says(engine, story):
    """What speculative decoding lives on: the likeliest token of the one is that of the other."""
    draft = load_engine(str(DRAFT), solution=True, dtype="float32", stage="kv-cache")
    tokens = mx.array([story])
    same = mx.argmax(engine.logits(tokens), axis=-1) == mx.argmax(draft.logits(tokens), axis=-1)
    assert same.mean().item() > 0.5


@pytest.mark.parametrize("folder", [EMBEDDED_MODEL, DRAFT, ON_TOPIC], ids=lambda folder: folder.name)
def test_the_card_is_what_the_records_say(folder):
    bench = json.loads((MODELS / "bench.json").read_text(encoding="utf-8"))
    for name, text in publish.files_of_card(folder, bench).items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"run `pdm run python models/publish.py` for {name}"


@both
def test_the_bits_of_the_stories_that_ship(folder):
    """By the formula in float64, and on the shortest story by the engine."""
    bench = json.loads((MODELS / "bench.json").read_text(encoding="utf-8"))["shipped"]
    recorded = next(row for row in bench["models"] if row["name"] == folder.name)
    engine, stories = load_engine(str(folder), solution=True, dtype="float32", stage="kv-cache"), shipped_stories()
    rows = as_rows(engine, stories, mark_of(engine))
    assert len(rows.rows) == len(stories) == bench["held_out"]
    model = ReferenceModel(engine.checkpoint.config, engine.checkpoint.weights)
    losses = [
        -np.log(softmax64(model64(row[None, :-1], model)[0], -1))[range(len(row) - 1), row[1:]] for row in rows.rows
    ]
    assert rows.bits_per_byte(np.concatenate(losses).mean()) == pytest.approx(recorded["bits_per_byte"], abs=5e-4)
    shortest = min(range(len(stories)), key=lambda place: len(rows.rows[place]))
    assert nats_per_token(engine, [rows.rows[shortest]]) == pytest.approx(losses[shortest].mean(), abs=1e-4)


def test_the_figures_are_of_these_weights():
    bench = json.loads((MODELS / "bench.json").read_text(encoding="utf-8"))
    for rows in (bench["models"], bench["shipped"]["models"]):
        measured = {row["name"]: row.get("sha256") for row in rows}
        for folder in (EMBEDDED_MODEL, DRAFT):
            assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == measured[folder.name]


def test_the_adapter_keeps_to_the_subject():
    bench = json.loads((MODELS / "bench.json").read_text(encoding="utf-8"))
    judged, base = (
        bench["adapters"][ON_TOPIC.name],
        next(r for r in bench["models"] if r["name"] == EMBEDDED_MODEL.name),
    )
    assert hashlib.sha256((ON_TOPIC / "adapter_model.safetensors").read_bytes()).hexdigest() == judged["sha256"]
    assert judged["requests"]["asked"] == bench["requests"]["asked"]
    assert judged["requests"]["follow"] >= 45 > bench["requests"]["follow"]
    assert judged["models"][0]["nats_per_token"] < 1.02 * base["nats_per_token"]


def test_they_beat_counting_and_the_trial():
    bits = {
        row["name"]: row["bits_per_byte"] for row in json.loads((MODELS / "bench.json").read_text("utf-8"))["models"]
    }
    assert bits["tiny-qwen3"] < bits["tiny-qwen3-draft"] < bits["5-gram, Kneser-Ney"]
    assert bits["tiny-qwen3"] < 0.81


def test_counting_by_hand():
    """Bigrams of the texts 0 1 1 2 and 0 1 2, as Kneser and Ney smooth them."""
    texts = [np.array([0, 1, 1, 2]), np.array([0, 1, 2])]
    model = KneserNey(texts, vocab_size=4, order=2)
    # 01 twice, 12 twice, 11 once: a discount of 1 / (1 + 2 * 2) = 0.2. One token lower, 2 follows one other token and 1
    # follows two: 1 / (1 + 2) = 1/3 is taken from each, and spread over the four.
    after_one = {1: (1 - 0.2) / 3, 2: (2 - 0.2) / 3}
    discount = 1 / 3
    lower = {1: (2 - discount) / 3, 2: (1 - discount) / 3}
    spread = discount * 2 / 3 / 4
    for token in (0, 1, 2, 3):
        expected = after_one.get(token, 0) + 0.2 * 2 / 3 * (lower.get(token, 0) + spread)
        assert model.probabilities(np.array([1, token]))[0] == pytest.approx(expected)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_probabilities_sum_to_one(order):
    draw = np.random.default_rng(1)
    texts = [np.append(0, draw.integers(0, 6, 30)) for _ in range(20)]
    model = KneserNey(texts, vocab_size=6, order=order)
    for text in (texts[0][:5], np.array([5, 5, 5, 5])):
        total = sum(model.probabilities(np.append(text, token))[-1] for token in range(6))
        assert total == pytest.approx(1)

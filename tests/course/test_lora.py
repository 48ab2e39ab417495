"""Fine-tuning beyond the graded tests: mlx-lm loads our adapters, the shipped one works, a server keeps them apart."""

import io
import json
import subprocess
from functools import partial
from urllib.error import HTTPError
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import mlx.core as mx
import numpy as np
import pytest
from tests.course.checkpoint_folders import quantized, small
from tests.course.server_clients import SERVE, serving

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.course.registry import UsageError
from tiny_llm_course.engine.engine import Engine, load_engine
from tiny_llm_course.engine.serving import load_scheduler
from tiny_llm_course.paths import EMBEDDED_MODEL, MODELS, ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.embedded import embedded_checkpoint
from tiny_llm_course.testkit.marks import needs

pytestmark = pytest.mark.maintainers
mx.set_default_device(mx.cpu)
load_solution()
GOOD_NIGHT = MODELS / "good-night"
STORY = [{"role": "user", "content": "Tell me a story about a cow."}]


def model_with(adapter=None):
    """Return the course's model with an adapter, and its weights."""
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.lora.adapter import LoRAParts
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    checkpoint = embedded_checkpoint()
    config = ModelConfig.from_dict(checkpoint.config)
    weights = {**checkpoint.weights, **(adapter.weights if adapter else {})}
    return Qwen3CachedModel(config, weights, LoRAParts(adapter.alpha if adapter else 1.0)), checkpoint.weights, config


def drawn(rank=3, alpha=5.0, names=("q_proj", "down_proj"), seed=1):
    """Return an adapter with a random B."""
    from tiny_llm_solution.lora.adapter import Adapter, init_lora

    weights = init_lora(embedded_checkpoint().weights, rank, names, seed)
    keys = mx.random.split(mx.random.key(seed), len(weights))
    pairs = zip(weights.items(), keys, strict=True)
    return Adapter({n: 0.05 * mx.random.normal(w.shape, key=k) if n.endswith("b") else w for (n, w), k in pairs}, alpha)


def test_mlx_lm_loads_our_adapters(tmp_path):
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model
    from tiny_llm_solution.lora.files import save_adapter

    adapter, tokens = drawn(), mx.array([[5, 80, 300, 1200, 7, 2045]])
    save_adapter(tmp_path, adapter, "mlx-lm")
    theirs, _ = load_model(EMBEDDED_MODEL)
    theirs.set_dtype(mx.float32)
    theirs = load_adapters(theirs, str(tmp_path))
    ours, _, _ = model_with(adapter)
    expected, plain = np.array(theirs(tokens)), np.array(model_with()[0](tokens, all_positions=True))
    actual = np.array(ours(tokens, all_positions=True))
    np.testing.assert_allclose(actual, expected, atol=2e-3)
    assert np.abs(actual - plain).max() > 0.1


@pytest.mark.parametrize("form", ["peft", "mlx-lm"])
def test_an_adapter_survives_its_files(tmp_path, form):
    from tiny_llm_solution.lora.files import load_adapter, save_adapter

    adapter = drawn()
    save_adapter(tmp_path, adapter, form)
    again = load_adapter(tmp_path)
    assert again.weights.keys() == adapter.weights.keys()
    assert all(mx.array_equal(again.weights[name], w) for name, w in adapter.weights.items())
    assert again.scale == pytest.approx(adapter.scale)


def test_merged_equals_unmerged_and_untrained_changes_nothing():
    from tiny_llm_solution.lora.adapter import Adapter, init_lora, merge_lora
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    adapter, tokens = drawn(), mx.array([[5, 80, 300]])
    unmerged, weights, config = model_with(adapter)
    merged = Qwen3CachedModel(config, merge_lora(weights, adapter))
    np.testing.assert_allclose(np.array(merged(tokens)), np.array(unmerged(tokens)), atol=2e-3)
    untrained = Adapter(init_lora(weights, 4, ("v_proj",), 0), 8.0)
    assert mx.array_equal(model_with(untrained)[0](tokens), model_with()[0](tokens))
    with pytest.raises(ValueError, match="another model"):
        merge_lora({"model.norm.weight": weights["model.norm.weight"]}, adapter)
    with pytest.raises(ValueError, match="no projection"):
        init_lora(weights, 4, ("x_proj",), 0)


def test_training_changes_the_adapter_alone():
    from tiny_llm_solution.lora.adapter import Adapter, init_lora
    from tiny_llm_solution.lora.finetune import batch_examples, finetune
    from tiny_llm_solution.optimizers.adamw import AdamW

    _, weights, config = model_with()
    before = {name: np.array(w) for name, w in weights.items()}
    batch = batch_examples([([5, 6, 7, 8], [-100, 7, 8, -100]), ([9, 10], [10, -100])], padding=2045)
    assert batch[0].tolist() == [[5, 6, 7, 8], [9, 10, 2045, 2045]]
    assert batch[1].tolist() == [[-100, 7, 8, -100], [10, -100, -100, -100]]
    start = Adapter(init_lora(weights, 2, ("q_proj", "v_proj"), 0), 4.0)
    steps = list(finetune(config, weights, start, [batch] * 4, AdamW(1e-2)))
    losses = [loss.item() for _, loss in steps]
    assert losses[-1] < losses[0]
    assert all(np.array_equal(np.array(weights[name]), w) for name, w in before.items())
    assert steps[-1][0].weights.keys() == start.weights.keys()


def test_an_example_is_what_the_server_renders():
    from tiny_llm_solution.lora.sft import chat_example
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    checkpoint, tokenizer = embedded_checkpoint(), ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json")

    def template(messages, generate):
        return render_chat(
            checkpoint.chat_template, messages, checkpoint.special_tokens, add_generation_prompt=generate
        )

    messages = [*STORY, {"role": "assistant", "content": "\nA cow."}]
    tokens, targets = chat_example(messages, tokenizer, template, checkpoint.config["eos_token_id"][0])
    first = next(i for i, target in enumerate(targets) if target >= 0)
    assert tokens[: first + 1] == tokenizer.encode(template(STORY, True))
    assert tokenizer.decode([target for target in targets if target >= 0]) == "\nA cow.<|im_end|>"


def served(engine, texts):
    """Return the greedy output for each (adapter's name or None, prompt), all in one scheduler."""
    part = partial(engine.part, "serving.request")
    requests = []
    for name, text in texts:
        request = part("Request")(engine.tokenizer.encode(text), 24, part("SamplingParams")(temp=0.0))
        if name:
            engine.adapted.use(request, name)
        requests.append(request)
        engine.scheduler.submit(request)
    while engine.scheduler.running or engine.scheduler.waiting:
        engine.scheduler.step()
    return [request.output for request in requests]


@pytest.mark.parametrize("mode", ["continuous", "paged"])
def test_requests_of_several_adapters_in_one_batch(tmp_path, mode):
    """As one at a time, and as the merged model."""
    from tiny_llm_solution.lora.adapter import merge_lora
    from tiny_llm_solution.lora.files import save_adapter
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    other = drawn(alpha=2.0)
    save_adapter(tmp_path, other, "mlx-lm")
    folders = {"good-night": GOOD_NIGHT, "other": tmp_path}
    load = partial(load_scheduler, None, True, mode, dtype="float32", adapters=folders)
    texts = [(None, "One day"), ("good-night", "One day"), ("other", "Once upon a time"), ("good-night", "The dog")]
    together = served(load(), texts)
    assert together == [output for each in texts for output in served(load(), [each])]
    assert together[0] != together[1]
    _, weights, config = model_with()
    merged, tokenizer = Qwen3CachedModel(config, merge_lora(weights, other)), load().tokenizer
    caches, new, found = merged.new_caches(), tokenizer.encode("Once upon a time"), []
    for _ in range(24):
        new = [int(mx.argmax(merged(mx.array([new]), caches)[0, -1]).item())]
        found += new
    assert together[2] == found


def test_what_cannot_be_served(tmp_path):
    from tiny_llm_solution.lora.adapter import Adapter
    from tiny_llm_solution.lora.files import save_adapter

    adapters = {"good-night": GOOD_NIGHT}
    with pytest.raises(UsageError, match="The stage prefix cannot serve adapters; static, continuous"):
        load_scheduler(None, True, "prefix", adapters=adapters)
    with pytest.raises(UsageError, match="tiny-qwen3 is the name of the model"):
        load_scheduler(None, True, adapters={"tiny-qwen3": GOOD_NIGHT})
    name = "model.layers.0.self_attn.q_proj"
    save_adapter(tmp_path, Adapter({f"{name}.lora_a": mx.ones((1, 9)), f"{name}.lora_b": mx.ones((5, 1))}, 1.0), "peft")
    with pytest.raises(UsageError, match=f"the adapter x changes {name}, 5 x 9, but the model has 384 x 256"):
        load_scheduler(None, True, adapters={"x": tmp_path})
    save_adapter(tmp_path, Adapter({"x.lora_a": mx.ones((1, 9)), "x.lora_b": mx.ones((5, 1))}, 1.0), "mlx-lm")
    mx.save_safetensors(str(tmp_path / "adapters.safetensors"), {})
    with pytest.raises(UsageError, match="is not an adapter that can be loaded: its file of weights has no tensors"):
        load_scheduler(None, True, adapters={"x": tmp_path})
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "IA3"}))
    with pytest.raises(UsageError, match="is not an adapter that can be loaded: peft_type is 'IA3'"):
        load_scheduler(None, True, adapters={"x": tmp_path})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["x"], "'x' is not of the form NAME=FOLDER"),
        (["x=nowhere"], "nowhere is not a folder"),
        ([f"x={MODELS}"], f"{MODELS} has no adapter_config.json"),
        ([f"x={GOOD_NIGHT}", f"x={GOOD_NIGHT}"], "There are two adapters named x"),
    ],
)
def test_options_that_are_refused(given, message):
    options = [word for each in given for word in ("--adapter", each)]
    command = [word.replace("{port}", "0") for word in SERVE] + options
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize("form", ["peft", "mlx-lm"])
def test_generate_continues_as_the_server_does(tmp_path, form):
    from tiny_llm_solution.lora.files import save_adapter

    save_adapter(tmp_path, drawn(), form)
    engine = load_engine(None, True, "float32", adapter=tmp_path)
    assert engine.runs == f"kv-cache, float32 weights made from bfloat16, adapter {tmp_path.name}"
    server = load_scheduler(None, True, "paged", dtype="float32", adapters={"x": tmp_path})
    alone, adapted = served(server, [(None, "One day"), ("x", "One day")])
    assert [*engine.likeliest(engine.encode("One day"), 24)] == adapted != alone
    again = Engine(engine.checkpoint, True, "kv-cache")  # as --mistake makes one
    assert [*again.likeliest(engine.encode("One day"), 24)] == adapted


def test_a_stage_that_quantizes_merges_first():
    engine = load_engine(None, True, "float32", "quantized", adapter=GOOD_NIGHT)
    assert engine.runs == "quantized, 4-bit weights made from bfloat16, adapter good-night"
    plain = load_engine(None, True, "float32", "quantized")
    prompt = plain.encode(render_chat(plain.checkpoint.chat_template, STORY, plain.checkpoint.special_tokens))
    adapted, without = (each.tokenizer.decode([*each.likeliest(prompt, 80)]) for each in (engine, plain))
    assert "Good night" in adapted
    assert "Good night" not in without


def test_chat_in_the_terminal(typed, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(STORY[0]["content"].encode()), encoding="utf-8"))
    status, text, notes = typed("chat", "--solution", "--cpu", "--temp", 0, "--adapter", GOOD_NIGHT)
    assert status == 0
    assert text.endswith("Good night, little cow!\n")
    assert "adapter good-night); stopped: end of text" in notes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--adapter", "nowhere"], "nowhere is not a folder."),
        (["--adapter", MODELS], f"{MODELS} has no adapter_config.json."),
        (["--model", "models/tiny-qwen3-draft", "--adapter", GOOD_NIGHT], "the adapter is for another model: model."),
        (["--adapter", "{folder}"], "the adapter is for another model: there is no model.layers.9.self_attn.q_proj."),
        (["--adapter", "{folder}", "--model", "{packed}", "--stage", "flash"], "cannot merge an adapter into 4-bit"),
    ],
)
def test_what_generate_and_chat_refuse(typed, tmp_path, checkpoint, options, message):
    from tiny_llm_solution.lora.adapter import Adapter
    from tiny_llm_solution.lora.files import save_adapter

    name = "model.layers.9.self_attn.q_proj"
    save_adapter(tmp_path, Adapter({f"{name}.lora_a": mx.ones((1, 9)), f"{name}.lora_b": mx.ones((5, 1))}, 1.0), "peft")
    packed = checkpoint(quantized(small(dtype=mx.bfloat16), 32, 4))
    words = [str(word).format(folder=tmp_path, packed=packed) for word in options]
    for command in (["generate", "One day"], ["chat"]):
        status, text, notes = typed(*command, "--solution", *words)
        assert (status, text) == (2, "")
        assert message in notes.splitlines()[0]
        assert len(notes.splitlines()) <= 2  # the other line is a command


def asked(port, path, body=None):
    """Return the status and the body of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = HttpRequest(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


@needs("port")
def test_a_server_with_an_adapter():
    with serving("--adapter", f"good-night={GOOD_NIGHT}") as port:
        _, models = asked(port, "/v1/models")
        assert [(model["id"], model.get("parent")) for model in models["data"]] == [
            ("tiny-qwen3", None), ("good-night", "tiny-qwen3"),
        ]  # fmt: skip
        assert asked(port, "/v1/models/good-night")[1]["id"] == "good-night"
        chat = {"messages": STORY, "max_tokens": 120, "temperature": 0}
        _, adapted = asked(port, "/v1/chat/completions", {**chat, "model": "good-night"})
        _, plain = asked(port, "/v1/chat/completions", {**chat, "model": "tiny-qwen3"})
        assert (adapted["model"], plain["model"]) == ("good-night", "tiny-qwen3")
        assert "Good night, little" in adapted["choices"][0]["message"]["content"]
        assert "Good night" not in plain["choices"][0]["message"]["content"]
        status, refused = asked(port, "/v1/chat/completions", {**chat, "model": "good-morning"})
        assert (status, refused["error"]["code"]) == (404, "model_not_found")
        assert "this server has tiny-qwen3, good-night." in refused["error"]["message"]


def test_the_record_is_of_the_adapter():
    """What the chapter quotes is what models/fine_tune.py measured."""
    record = json.loads((GOOD_NIGHT / "record.json").read_text())
    answers = record["answers"]
    assert {len(each) for each in answers.values()} == {10}
    assert sum(each["style"] for each in answers["before"]) == 0
    assert sum(each["style"] for each in answers["adapter"]) >= 9
    assert all(sum(each["ends"] for each in answers[name]) == 0 for name in ("alpha forgotten", "alpha not divided"))

"""EleutherAI's lm-eval, if it is installed, against `pdm run serve`: its likelihoods are the model's own."""

import json
import math
import os
import shutil
import subprocess

import pytest
from tests.course.server_clients import MODEL, serving

from tiny_llm_course.engine.serving import load_scheduler
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.serving.logits import score_rows
from tiny_llm_course.testkit.marks import needs

PROGRAM = os.environ.get("LM_EVAL") or shutil.which("lm_eval")
pytestmark = [
    pytest.mark.maintainers,
    needs("port"),
    pytest.mark.skipif(not PROGRAM, reason="not run here: lm-eval is not installed (LM_EVAL names its program)"),
]
QUESTIONS = [
    {"text": "Once upon a time, there was a little", "choices": [" dog", " matrix", " girl named Lily"], "label": 2},
    {
        "text": "The dog was happy. He wagged his",
        "choices": [" tail.", " very big house of stone", " ears."],
        "label": 0,
    },
    {"text": "She opened the box and", "choices": [" saw a toy", " box box", " found a ball inside.\n"], "label": 0},
]
CHOICE = """task: tiny_choice
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_choice: "{{choices}}"
doc_to_target: label
target_delimiter: ""
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
"""
ROLLING = """task: tiny_rolling
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity, aggregation: weighted_perplexity, higher_is_better: false}]
"""


def test_its_likelihoods_are_the_models(tmp_path):
    """`local-completions`, with the server's own tokenizer: multiple choice, and the perplexity of texts."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(each) + "\n" for each in QUESTIONS))
    for name, task in (("choice", CHOICE), ("rolling", ROLLING)):
        (tmp_path / f"{name}.yaml").write_text(task.replace("DATA", json.dumps(str(data))))
    with serving() as port:
        where = f"http://127.0.0.1:{port}/v1/completions"
        command = [PROGRAM, "--model", "local-completions", "--tasks", "tiny_choice,tiny_rolling"]
        command += ["--include_path", tmp_path]
        command += ["--model_args", f"model={MODEL},base_url={where},tokenizer_backend=remote,max_length=2048"]
        command += ["--batch_size", "4", "--log_samples", "--output_path", tmp_path / "out"]
        offline = {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | offline
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
    found = {
        name: [
            json.loads(line) for file in tmp_path.glob(f"out/**/samples_tiny_{name}_*.jsonl") for line in file.open()
        ]
        for name in ("choice", "rolling")
    }
    assert [len(samples) for samples in found.values()] == [3, 3]
    engine = load_scheduler(None, True, "paged")
    for sample in found["choice"]:
        text, choices = sample["doc"]["text"], sample["doc"]["choices"]
        context = engine.tokenizer.encode(text)
        for choice, ((likelihood, greedy),) in zip(choices, sample["resps"], strict=True):
            tokens = engine.tokenizer.encode(text + choice)
            scores = directly(engine, tokens)[len(context) - 1 :]
            assert float(likelihood) == pytest.approx(sum(each.logprob for each in scores), abs=1e-3)
            assert (greedy in (True, "True")) is all(each.rank == 1 for each in scores)
        by_day_5_7(engine, sample)
    for sample in found["rolling"]:
        tokens = [engine.checkpoint.eos_ids[0], *engine.tokenizer.encode(sample["doc"]["text"])]
        expected = sum(each.logprob for each in directly(engine, tokens))
        assert float(sample["resps"][0][0]) == pytest.approx(expected, abs=1e-3)
        assert math.isfinite(expected)


def by_day_5_7(engine, sample):
    """Week 5, day 7 has the same sums, and by them the same `acc` and `acc_norm`: the choices are ASCII."""
    load_solution()
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.evaluation.choices import score_choices
    from tiny_llm_solution.evaluation.items import credit
    from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel

    model = Qwen3CachedModel(ModelConfig.from_dict(engine.checkpoint.config), engine.checkpoint.weights)
    item = sample["doc"]
    found = score_choices(
        lambda x: model(x, all_positions=True), engine.tokenizer.encode, item["text"], item["choices"]
    )
    assert found.total.tolist() == pytest.approx(
        [float(likelihood) for ((likelihood, _),) in sample["resps"]], abs=1e-3
    )
    assert credit(found.total.tolist(), item["label"]) == sample["acc"]
    assert credit(found.per_byte.tolist(), item["label"]) == sample["acc_norm"]


def directly(engine, tokens):
    """The scores of all tokens but the first, by the engine's model and memory, without a scheduler or a server."""
    memory, part = engine.scheduler.kv_cache, engine.part
    request = part("serving.request", "Request")(tokens, 1)
    memory.admit(request)
    chunk = part("serving.request", "Chunk")(request, 0, tokens, len(tokens))
    logits = engine.scheduler.model([chunk], memory)
    memory.release(request)
    return score_rows(logits[:-1], tokens[1:], 1)

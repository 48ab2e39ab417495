"""Tensor parallelism in the engine: what each rank reads, serving by several ranks, and the two commands."""

import json
import os
import signal
import struct
import subprocess
import sys
import time
import urllib.request

import mlx.core as mx
import numpy as np
import psutil
import pytest
from tests.week1.reference_model import random_model
from tests.week6.sharded import SHARED, WIDE, numbers, packed_model, parts

from tiny_llm_course.paths import EMBEDDED_MODEL, ROOT
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.ranks import run_ranks

load_solution()
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.engines.modes import Limits, paged  # noqa: E402
from tiny_llm_solution.engines.tensor_parallel import Leader, decode_plan, encode_plan, follow  # noqa: E402
from tiny_llm_solution.serving.request import Chunk, Request  # noqa: E402
from tiny_llm_solution.tensor_parallel.loading import load_shard  # noqa: E402
from tiny_llm_solution.tensor_parallel.shards import Partition  # noqa: E402

PACKED = {"hidden_size": 64, "num_attention_heads": 8, "head_dim": 16, "intermediate_size": 192}
COMMAND = [sys.executable, "-m", "tiny_llm_course"]


def save(folder, weights, files=1):
    """Write weights to one file, or to several with an index."""
    names = sorted(weights)
    if files == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), weights)
        return
    places = {name: f"model-{i % files}.safetensors" for i, name in enumerate(names)}
    for file in set(places.values()):
        mx.save_safetensors(str(folder / file), {name: weights[name] for name in names if places[name] == file})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_a_rank_reads_its_part(tmp_path, files, dtype):
    weights = random_model(SHARED, 1, dtype).weights
    save(tmp_path, weights, files)
    for rank in range(4):
        found = load_shard(tmp_path, Partition(ModelConfig.from_dict(SHARED), rank, 4))
        expected = parts(weights, SHARED, rank, 4)
        assert found.weights.keys() == expected.keys()
        assert found.bytes_read == sum(w.nbytes for w in expected.values())
        for name, w in expected.items():
            assert found.weights[name].dtype == dtype
            assert np.array_equal(numbers(found.weights[name]), numbers(w)), name


def test_a_rank_reads_packed_columns(tmp_path):
    config = {**SHARED, **PACKED}
    weights = packed_model(config, 2, 4, 32).weights
    save(tmp_path, weights)
    found = load_shard(tmp_path, Partition(ModelConfig.from_dict(config), 1, 2)).weights
    for name, w in parts(weights, config, 1, 2).items():
        assert np.array_equal(numbers(found[name]), numbers(w)), name


def test_two_ranks_read_half_of_the_embedded_model():
    config = ModelConfig.from_dict(json.loads((EMBEDDED_MODEL / "config.json").read_text()))
    whole, *halves = (
        load_shard(EMBEDDED_MODEL, Partition(config, r, n)).bytes_read for r, n in [(0, 1), (0, 2), (1, 2)]
    )
    assert max(halves) < 0.51 * whole


def test_only_wanted_tensors_are_read(tmp_path):
    save(tmp_path, random_model(WIDE, 3).weights)
    found = load_shard(tmp_path, Partition(ModelConfig.from_dict(WIDE), 0, 2), {"model.norm.weight"})
    assert found.bytes_read == 4 * WIDE["hidden_size"]


def test_an_unknown_dtype_is_refused(tmp_path):
    header = json.dumps({"model.norm.weight": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    with pytest.raises(ValueError, match="I64"):
        load_shard(tmp_path, Partition(ModelConfig.from_dict(WIDE), 0, 2))


def test_a_file_that_ends_too_early_is_refused(tmp_path):
    save(tmp_path, random_model(WIDE, 4).weights)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-5000])
    with pytest.raises(OSError, match="ends within"):
        load_shard(tmp_path, Partition(ModelConfig.from_dict(WIDE), 0, 2))


def test_a_plan_arrives_as_it_was_sent():
    chunks = [Chunk(Request([1], 1, request_id=3), 0, [5, 6, 7], 0), Chunk(Request([1], 1, request_id=8), 4, [9], 1)]
    assert decode_plan(encode_plan([2, 5], chunks)) == ([2, 5], [(3, 0, 0, [5, 6, 7]), (8, 4, 1, [9])])
    assert decode_plan(encode_plan([], [])) == ([], [])


def requests():
    return [Request([3 + i, 5, 2 * i + 1] * (i + 1), 6 + i) for i in range(5)]


def serve(scheduler, cancelled):
    served = requests()
    for request in served:
        scheduler.submit(request)
    steps = 0
    while scheduler.running or scheduler.waiting:
        scheduler.step()
        steps += 1
        if steps == cancelled:
            scheduler.cancel(served[1])
    return [(request.output, request.finish_reason) for request in served]


@pytest.mark.parametrize("pages", [200, 9], ids=["pages enough", "with preemption"])
@pytest.mark.parametrize("cancelled", [0, 4])
def test_ranks_serve_what_one_process_serves(pages, cancelled):
    """Continuous batching with chunked prefill, pages that run out, and a request that is cancelled."""
    config, model = ModelConfig.from_dict(SHARED), random_model(SHARED, 5)
    of_page = 2 * 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
    limits = Limits(3, 7, pages * of_page, 4, fused=False)
    expected = serve(paged(config, model.weights, limits), cancelled)

    def program(group):
        weights = parts(model.weights, SHARED, group.rank, 2)
        own = Limits(3, 7, pages * of_page // 2, 4, fused=False)  # a rank has half of the heads
        if group.rank:
            return follow(config, weights, own, group)
        leader = Leader(config, weights, own, group)
        found = serve(leader, cancelled)
        leader.close()
        return found

    assert run_ranks(program, 2)[0] == [expected, None]


def run(*arguments):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)


def test_generate_on_two_ranks():
    options = ["generate", "Once upon a time", "--solution", "--temp", "0", "--max-tokens", "12"]
    two, one = run(*options, "--tensor-parallel", "2"), run(*options, "--stage", "kv-cache")
    assert (two.returncode, two.stdout) == (0, one.stdout)
    assert "2 ranks" in two.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--tensor-parallel", "4"], "6 query heads cannot be divided among 4 ranks"),
        (["--tensor-parallel", "2", "--bits", "4"], "--bits does not go with tensor parallelism"),
    ],
)
def test_generate_refuses_in_one_line(arguments, words):
    found = run("generate", "Once", "--solution", *arguments)
    assert found.returncode == 2
    assert words in found.stderr
    assert "Traceback" not in found.stderr


def ask(url, prompt):
    body = {"model": "tiny-qwen3", "prompt": prompt, "max_tokens": 8, "temperature": 0}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())["choices"][0]["text"]


@pytest.mark.parametrize("end", ["Ctrl-C", "a rank is killed"])
def test_serve_on_two_ranks(end):
    command = [*COMMAND, "serve", "--solution", "--tensor-parallel", "2", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True) as server:
        try:
            line = server.stderr.readline()
            assert "2 ranks" in line
            url = line.split(" at ")[1].split(" ")[0] + "/completions"
            assert ask(url, "Once upon a time").startswith(", there was a little girl")
            ranks = [each for each in psutil.Process(server.pid).children() if "serve" in " ".join(each.cmdline())]
            if end == "Ctrl-C":
                server.send_signal(signal.SIGINT)
            else:
                ranks[-1].kill()
            assert server.wait(30) == (130 if end == "Ctrl-C" else 1)
            said = server.stderr.read()
            assert ("rank 1" in said.lower()) == (end != "Ctrl-C")
            gone = time.monotonic() + 10
            while any(each.is_running() for each in ranks) and time.monotonic() < gone:
                time.sleep(0.1)
            assert not any(each.is_running() for each in ranks)
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)

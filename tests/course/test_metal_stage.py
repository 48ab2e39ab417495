"""Stage `metal`, in `generate` and in `serve`: the learner's Metal kernels in an engine, here on the simulator."""

import importlib
from typing import Any

import pytest
from tests.course.checkpoint_folders import quantized, small
from tests.week1.reference_model import QWEN3, QWEN25

from tiny_llm_course.course.registry import UsageError, load_course
from tiny_llm_course.course.requirements import missing
from tiny_llm_course.engine import stages
from tiny_llm_course.engine.engine import Engine, Sampling, load_engine
from tiny_llm_course.engine.serving import Limits, load_scheduler
from tiny_llm_course.engine.simulation import Simulation
from tiny_llm_course.measuring.engine_speed import measure
from tiny_llm_course.programs.packages import SOLUTION_NAME

pytestmark = [
    pytest.mark.maintainers,
    pytest.mark.skipif(bool(missing(["simulator"])), reason="not run here: no simulator"),
]
# Two layers. Rows of 128 and 256 weights fill whole lines of memory.
SIZES: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "num_hidden_layers": 2}
SIZES |= {"hidden_size": 128, "intermediate_size": 256}
LINE = 64  # bytes


@pytest.fixture
def folder(checkpoint) -> str:
    """A random 4-bit model, which the float stages dequantize."""
    return str(checkpoint(quantized(small(**SIZES), 64, 4)))


def engine_of(folder: str, stage: str = "metal") -> Engine:
    return load_engine(folder, True, "float32", stage)


@pytest.mark.parametrize(("base", "prompt"), [(QWEN3, [*range(11)]), (QWEN25, [3, 1, 4])], ids=["tiles", "split-K"])
def test_its_greedy_text_is_that_of_the_float_stage(checkpoint, base, prompt):
    folder = str(checkpoint(quantized(small(base, **SIZES), 64, 4)))
    metal, floats = engine_of(folder), engine_of(folder, "kv-cache")
    assert metal.runs == "metal, 4-bit weights as stored, on the simulator"
    assert [*metal.likeliest(prompt, 8)] == [*floats.likeliest(prompt, 8)]


def test_it_is_counted_step_by_step_and_the_weights_of_a_token_by_hand(folder):
    metal = engine_of(folder)
    answer = metal.answer([3, 1, 4], 3, metal.sampler(Sampling(temp=0)))
    simulation = Simulation(answer)
    list(simulation.text(answer.pieces))
    products = [counters for name, counters in simulation.steps[2] if name == "quantized_matvec"]
    # Outputs and inputs of q, k, v, o, gate, up and down in each of two layers, and of the head.
    shapes = [(128, 128), (64, 128), (64, 128), (128, 128), (256, 128), (256, 128), (128, 256)] * 2
    shapes.append((metal.checkpoint.config["vocab_size"], 128))
    lines = 0
    for outputs, inputs in shapes:
        lines += outputs * (inputs * 4 // 8 // LINE + 2)  # each row's words; one line of its scales, one of its biases
        lines += -(-outputs // 8) * (inputs * 4 // LINE) + outputs  # x once for 8 rows, and each row's y
    assert [sum(each.device_transactions for each in products), len(products)] == [lines, len(shapes)]
    *_, everything, prefill = simulation.lines(80)
    assert everything.split()[0] == "all"
    assert [*simulation.steps] == [0, 1, 2]
    assert prefill.startswith("Prefill: ")


def test_generate_says_that_it_is_simulated_and_prints_the_counts(folder, typed):
    status, out, err = typed("generate", "the", "--solution", "--stage", "metal", "--model", folder, "--temp", 0)
    assert (status, out[:3]) == (0, "the")
    assert err.startswith(
        "The Metal kernels run on the simulator, seconds per token: 4 by default, more with --max-tokens.\n"
    )
    assert "4 tokens (metal, 4-bit weights as stored, on the simulator); stopped: length limit" in err
    assert "Token 4, as the simulator counts:" in err


def test_a_server_reads_pages_by_the_kernel_and_writes_the_same(folder):
    written = []
    for mode in ("metal", "paged"):
        engine = load_scheduler(folder, True, mode, Limits(page_size=4), "float32", kernels=mode == "metal")
        request = importlib.import_module(f"{SOLUTION_NAME}.serving.request").Request
        requests = [request(prompt, 6) for prompt in ([3, 1, 4, 1, 5], [9, 2])]
        for one in requests:
            engine.scheduler.submit(one)
        while engine.scheduler.running or engine.scheduler.waiting:
            engine.scheduler.step()
        written.append([one.output for one in requests])
    assert written[0] == written[1]


def test_it_is_never_the_default_and_its_time_is_not_measured(folder, checkpoint):
    assert "metal" in [stage.name for stage in load_course().stages()]
    assert "metal" not in [stage.name for stage in stages.runnable(load_course().stages(), True)]
    with pytest.raises(UsageError, match=r"runs on the simulator here, whose time says nothing about a GPU"):
        measure(engine_of(folder))
    with pytest.raises(UsageError, match=r"multiplies by 4-bit weights; .* needs --bits 4\.$"):
        load_scheduler(str(checkpoint(small(**SIZES))), True, "metal")

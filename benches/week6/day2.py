"""Layers of Qwen3-0.6B's shape on one process and on two ranks: time per step, and how much of it is communication."""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import mlx.core as mx

import tiny_llm
from tiny_llm.config import ModelConfig
from tiny_llm.distributed.group import Group, start
from tiny_llm.tensor_parallel.model import TensorParallelModel
from tiny_llm.tensor_parallel.shards import Partition
from tiny_llm.tensor_parallel.vocabulary import VocabularyEmbedding
from tiny_llm_course.measuring.clock import Table
from tiny_llm_course.ranks import launch

# What the book draws of the table.
CHART = ("bars", "", ("speed-up", "communication: %"))

LAYERS = 2  # of the model's 28; of the vocabulary of 151,936, there are 8,192 tokens
SHAPE = ModelConfig("qwen3", 1024, LAYERS, 3072, 16, 8, 128, 8192, 1e-6, 1e6, 4096, True)
CASES = {"decode, 1 sequence": (1, 1), "decode, 4 sequences": (4, 1), "prefill, 8 tokens": (1, 8)}  # N and L
STEPS, QUICK = 5, 1


def measure(quick: bool = False) -> Table:
    """Measure the same steps on one and on two ranks, over the real ring."""
    path = os.pathsep.join([str(Path(tiny_llm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, __file__, str(QUICK if quick else STEPS)]
    one, two = (
        [json.loads(text) for text in launch(command, ranks, environment={"PYTHONPATH": path})] for ranks in (1, 2)
    )
    rows = []
    for name in CASES:
        alone, together = one[0][name]["ms"], max(rank[name]["ms"] for rank in two)
        waits = statistics.mean(rank[name]["communication"] for rank in two)
        rows.append((name, alone, together, alone / together, 100 * waits, two[0][name]["KiB"]))
    columns = ("step", "1 rank: ms", "2 ranks: ms", "speed-up", "communication: %", "summed: KiB")
    _, _, _, speed, share, _ = rows[0]
    see = f"Two ranks decode one sequence {speed:.2f} times as fast as one process, and communicate or wait for "
    return Table(columns, tuple(rows), see + f"{share:.1f} % of the time.")


class Timed(Group):
    """A group that counts the seconds in its collectives: the exchange, and the wait for the slower rank."""

    def __init__(self, group: Group) -> None:
        """Use the transport of another group."""
        super().__init__(group._transport)
        self.seconds, self.bytes = 0.0, 0

    def all_sum(self, x: mx.array) -> mx.array:
        """Sum, as soon as this rank's array is computed."""
        mx.eval(x)  # what came before is not communication
        began = time.perf_counter()
        y = super().all_sum(x)
        mx.eval(y)
        self.seconds += time.perf_counter() - began
        self.bytes += x.nbytes
        return y


def work(steps: int) -> None:
    """Run the steps on this rank, and print the milliseconds per step and the share of communication."""
    mx.set_default_device(mx.cpu)
    group = start()
    timed = Timed(group)
    weights = random_weights(group.size)
    models = [TensorParallelModel(SHAPE, weights, each) for each in (group, timed)]
    assert all(isinstance(model.embedding, VocabularyEmbedding) for model in models)
    found = {}
    for name, (sequences, length) in CASES.items():
        tokens = mx.zeros((sequences, length), mx.int32)
        plain: list[float] = []
        whole: list[float] = []
        for model, times in zip(models, (plain, whole), strict=True):
            caches = model.new_caches()
            timed.seconds, timed.bytes = 0.0, 0
            for step in range(steps + 1):
                if step == 1:  # the first one does not count
                    timed.seconds, timed.bytes = 0.0, 0
                began = time.perf_counter()
                mx.eval(group.all_max(model(tokens, caches)[:, :, :1]))  # as sampling does, all ranks meet after a step
                times += [time.perf_counter() - began] * bool(step)
        share = timed.seconds / sum(whole)
        found[name] = {"ms": 1e3 * statistics.median(plain), "communication": share, "KiB": timed.bytes / steps / 1024}
    print(json.dumps(found))


def random_weights(size: int) -> dict[str, mx.array]:
    """Return a rank's weights: their shapes count here, and not their values."""
    c = Partition(SHAPE, 0, size).config  # all ranks have equal shapes
    queries, keys = (heads * c.head_dim for heads in (c.num_attention_heads, c.num_key_value_heads))
    inner, hidden = c.intermediate_size, c.hidden_size
    shapes = {"self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden)}
    shapes |= {"self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries)}
    shapes |= {"mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}
    weights = {"model.embed_tokens.weight": mx.random.normal((c.vocab_size, hidden))}
    weights["model.norm.weight"] = mx.ones(hidden)
    for number in range(c.num_hidden_layers):
        own = {f"{name}.weight": mx.random.normal(shape) * 0.02 for name, shape in shapes.items()}
        own |= {f"{name}.weight": mx.ones(hidden) for name in ("input_layernorm", "post_attention_layernorm")}
        own |= {f"self_attn.{x}_norm.weight": mx.ones(c.head_dim) for x in "qk"}
        weights |= {f"model.layers.{number}.{name}": w for name, w in own.items()}
    mx.eval(weights)
    return weights


if __name__ == "__main__":
    work(int(sys.argv[1]))

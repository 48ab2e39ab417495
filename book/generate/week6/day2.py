"""Day 6.2's picture, tables and widget: what each rank holds of the embedded model, and what it sends."""

import functools
import math
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.dev.book.drawing import Canvas, squares
from tiny_llm_course.dev.book.html import element, number, table
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import EMBEDDED_MODEL
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.ranks import run_ranks

load_solution()
from tiny_llm_solution.config import ModelConfig  # noqa: E402
from tiny_llm_solution.qwen3_cached.model import Qwen3CachedModel  # noqa: E402
from tiny_llm_solution.tensor_parallel.loading import load_shard  # noqa: E402
from tiny_llm_solution.tensor_parallel.model import TensorParallelModel  # noqa: E402
from tiny_llm_solution.tensor_parallel.sampling import make_parallel_sampler  # noqa: E402
from tiny_llm_solution.tensor_parallel.shards import Partition  # noqa: E402
from tiny_llm_solution.tokenizer import ByteLevelBPE  # noqa: E402

TEXT, SHOWN = "That is a blue dog", 16  # the outputs of down_proj that the picture shows
SIZES = (1, 2, 6)  # that the embedded model can have
CHOICES = (1, 2, 3, 4, 6, 8, 16)
# Other models of the widget: those of the course's other chapters.
MODELS = {
    "Qwen3-0.6B": ModelConfig("qwen3", 1024, 28, 3072, 16, 8, 128, 151936, 1e-6, 1e6, 40960, True),
    "Qwen3-4B": ModelConfig("qwen3", 2560, 36, 9728, 32, 8, 128, 151936, 1e-6, 1e6, 40960, True),
}


def generated_parts() -> Parts:
    """Return the picture, the two tables and the widget."""
    return {"halves": halves(), "cuts": cuts(), "held": held(), "rank-shards": rank_shards()}


@functools.cache
def model() -> tuple[ModelConfig, dict[str, mx.array]]:
    """Return the embedded model in float32."""
    found = load_checkpoint(EMBEDDED_MODEL, mx.float32)
    return ModelConfig.from_dict(found.config), found.weights


def parts_of_the_sum() -> list[Any]:
    """Return SHOWN numbers of what layer 0's MLP adds for the last token: each rank's part, and the sum."""
    config, weights = model()
    tokens = mx.array([ByteLevelBPE.from_file(EMBEDDED_MODEL / "tokenizer.json").encode(TEXT)])
    layer, seen = Qwen3CachedModel(config, weights), list[mx.array]()
    mlp: Any = layer.layers[0].mlp
    down = mlp.down

    def watched(x: mx.array) -> mx.array:
        seen.append(x)
        found: mx.array = down(x)
        return found

    mlp.down = watched
    mx.eval(layer(tokens))
    x, w = seen[0][0, -1], weights["model.layers.0.mlp.down_proj.weight"][:SHOWN]
    half = config.intermediate_size // 2
    return [np.array(each) for each in (w[:, :half] @ x[:half], w[:, half:] @ x[half:], w @ x)]


def halves() -> str:
    """Draw a row-parallel product: the cut of the inputs and of down_proj, two partial sums, and their sum."""
    rows = parts_of_the_sum()
    top = max(float(np.abs(row).max()) for row in rows)
    canvas, left, cell = Canvas(), 84.0, 17.0
    cut_matrix(canvas, left, cell * SHOWN)
    above = canvas.bottom + 34
    canvas.text(left - 10, above - 8, "output", "small", "end")
    for output in range(0, SHOWN, 5):
        canvas.text(left + (output + 0.5) * cell, above - 8, str(output), "small mono", "middle")
    for i, (name, row) in enumerate(zip(("rank 0", "rank 1", "all_sum"), rows, strict=True)):
        y = above + i * 30.0 + (12 if i == 2 else 0)
        canvas.text(left - 10, y + 14, name, "strong" if i == 2 else "", "end")
        squares(canvas, left, y, row[None], cell, "stream", top)
    canvas.path([(left, above + 65), (left + cell * SHOWN, above + 65)], "line")
    first = [number(float(row[0]), 4) for row in rows]
    about = f"Output 0 is {first[0]} on rank 0, {first[1]} on rank 1, and {first[2]} in total."
    caption = (
        "Two ranks divide the inputs and columns of down_proj. The squares are the "
        f"first {SHOWN} of the 256 values that the MLP of layer 0 adds to the residual stream for the last token "
        f"of \u201c{TEXT}\u201d. Above the line are the ranks' partial sums. "
        "Below it is their sum. Hollow squares are negative."
    )
    return canvas.figure("halves-6-2", "Two partial sums", about, caption)


def cut_matrix(canvas: Canvas, left: float, width: float) -> None:
    """Draw the inputs of down_proj and the matrix, to scale, each cut in two halves."""
    config, _ = model()
    inner, gap = config.intermediate_size, 6.0
    half, height = (width - gap) / 2, width * config.hidden_size / inner
    canvas.text(left - 10, 33, "inputs", "", "end")
    canvas.text(left - 10, 46 + height / 2, "down_proj", "", "end")
    for rank in range(2):
        x, own = left + rank * (half + gap), range(rank * inner // 2, (rank + 1) * inner // 2)
        canvas.text(x + half / 2, 14, f"rank {rank}", "strong", "middle")
        canvas.rect(x, 23, half, 12, f"fill series-{rank}")
        canvas.rect(x, 42, half, height, f"fill series-{rank}")
        canvas.text(x + half / 2, 42 + height + 17, f"columns {span(own)}", "small", "middle")


def span(own: range) -> str:
    """Write a range as `0 to 191`, or one number."""
    return f"{own.start:,} to {own.stop - 1:,}" if len(own) > 1 else f"{own.start:,}"


def cuts() -> str:
    """Return a table of layer 0: the whole shape of each matrix, and what each of two ranks has of it."""
    config, weights = model()
    each = [Partition(config, rank, 2) for rank in range(2)]
    rows = []
    names = [f"self_attn.{x}_proj" for x in "qkvo"] + [f"mlp.{x}_proj" for x in ("gate", "up", "down")]
    for name in [f"layers.0.{name}" for name in names] + ["embed_tokens"]:
        shape = weights[f"model.{name}.weight"].shape
        found = [partition.cut(f"model.{name}.weight", shape) for partition in each]
        what = "columns" if found[0].axis else "rows"
        cells = [f"{what} {span(range(cut.start, cut.stop))}" for cut in found]
        rows.append([name.rpartition(".")[2], f"{shape[0]:,} x {shape[1]:,}", *cells])
    caption = "The matrices of layer 0 and the embedding of the course's model, split between two ranks"
    return table(caption, ["matrix", "full shape", "rank 0", "rank 1"], rows) + "\n"


def held() -> str:
    """Return a table of what a rank holds and sends, by the number of ranks; all of it is counted."""
    rows = []
    for size in SIZES:
        results, groups = run_ranks(_one_token, size)
        shard, cached = results[0]
        sums = [call for call in groups[0].calls if call.name == "all_sum"]
        given = sum(math.prod(call.shape) * call.dtype.size for call in groups[0].calls)
        rows.append(
            [
                str(size),
                number(shard / 2**20),
                f"{cached:,}",
                str(len(sums)),
                f"{given:,}",
            ]
        )
    caption = "Memory and communication of rank 0 while the course's model computes one token"
    head = ["ranks", "read from the file, MiB", "KV cache, bytes", "all_sum calls", "passed to collectives, bytes"]
    return table(caption, head, rows) + "\n"


def _one_token(group: Any) -> tuple[int, int]:
    """Load a rank's part, compute one token and choose the next; return the bytes read, and those of the KV cache."""
    config, _ = model()
    partition = Partition(config, group.rank, group.size)
    weights, count = load_shard(EMBEDDED_MODEL, partition)
    whole = TensorParallelModel(config, {name: w.astype(mx.float32) for name, w in weights.items()}, group)
    caches = whole.new_caches()
    logits = whole(mx.array([[430]]), caches)[:, -1]
    mx.eval(make_parallel_sampler(group, partition.vocabulary, config.vocab_size, temp=0)(logits, [[430]]))
    own = partition.config
    return count, 2 * own.num_hidden_layers * own.num_key_value_heads * own.head_dim * mx.float32.size


def division(config: ModelConfig, size: int) -> dict[str, Any]:
    """Return what each rank holds, as ranges, or why the model cannot be divided."""
    try:
        each = [Partition(config, rank, size) for rank in range(size)]
    except ValueError as error:
        return {"size": size, "error": str(error)}
    dims, found = config.head_dim, []
    for partition in each:
        query, key, mlp = (
            partition.cut(f"model.layers.0.x.{name}.weight", (total, 1))
            for name, total in (
                ("q_proj", config.num_attention_heads * dims),
                ("k_proj", config.num_key_value_heads * dims),
                ("gate_proj", config.intermediate_size),
            )
        )
        tokens = partition.vocabulary
        ends = [(query.start // dims, query.stop // dims), (key.start // dims, key.stop // dims)]
        found.append([*ends, (mlp.start, mlp.stop), (tokens.start, tokens.stop)])
    return {"size": size, "ranks": found}


def rank_shards() -> str:
    """Return the widget, and a table of the embedded model's division among two ranks."""
    config, _ = model()
    models = []
    for name, each in {"tiny-qwen3": config, **MODELS}.items():
        divisions = [division(each, size) for size in CHOICES]
        models.append(
            {
                "name": name,
                "hidden": each.hidden_size,
                "layers": each.num_hidden_layers,
                "head_dim": each.head_dim,
                "divisions": divisions,
            }
        )
    rows = []
    for rank, ends in enumerate(models[0]["divisions"][1]["ranks"]):
        rows.append([str(rank), *(span(range(*end)) for end in ends)])
    head = ["rank", "query heads", "key-value heads", "MLP columns", "token ids"]
    return element("rank-shards", {"models": models}, table("The course's model, split between two ranks", head, rows))

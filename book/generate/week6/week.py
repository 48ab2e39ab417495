"""The week as one figure: what each of four ranks holds of a model in four ways, and what a decode step sends."""

from book.generate.week6.day2 import MODELS
from book.generate.week6.day3 import RANKS, STEPS

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths
from tiny_llm_course.dev.book.drawing.canvas import WIDEST
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.measuring.clock import number
from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.distributed.cost import CostModel  # noqa: E402
from tiny_llm_solution.pipeline.costs import communication_seconds  # noqa: E402

MODEL, STEP = "Qwen3-0.6B", "decoding, 8 tokens"
BYTES = CostModel(0.0, 1.0)  # a second for each byte
LAYERS = MODELS[MODEL].num_hidden_layers
WAYS = {  # the day, what a rank holds, and its messages
    "tensor": (2, "a part of each matrix", f"{2 * LAYERS} all-reduces"),
    "pipeline": (3, "some of the layers", f"{RANKS - 1} messages"),
    "expert": (3, "some of the experts", f"{2 * LAYERS} all-to-all calls"),
    "data": (4, "the whole model", "no messages"),
}
GAP, TALL, TOP = 24.0, 112.0, 66.0  # pixels: between panels, a rank's height, and above it


def generated_parts() -> Parts:
    """Return the figure."""
    return {"ranks": ranks()}


def ranks() -> str:
    """Draw each rank as the whole model, with what it holds filled."""
    config, work = MODELS[MODEL], STEPS[STEP]
    heads = 2 * (config.num_attention_heads + config.num_key_value_heads) * config.head_dim
    share = heads / (heads + 3 * config.intermediate_size)  # of a layer's weights
    sent = communication_seconds(work, RANKS, BYTES, 1)
    kib = {way: f", {number(count / 1024)} KiB" if count else "" for way, count in sent.items()}
    notes = {way: (holds, f"{calls}{kib[way]}") for way, (_, holds, calls) in WAYS.items()}

    def panel(canvas: Canvas, way: str, x: float, y: float, width: float) -> None:
        between = 0.12 * width
        rank = (width - between * (RANKS - 1)) / RANKS
        canvas.text(x, y - 24, f"day {WAYS[way][0]}: {way}", "strong")
        for j in range(RANKS):
            left = x + j * (rank + between)
            canvas.text(left + rank / 2, y - 6, str(j), "small", "middle")
            canvas.rect(left, y, rank, TALL, "axis")
            for i, (start, size) in enumerate(((left, share * rank), (left + share * rank, (1 - share) * rank))):
                across = RANKS if way == "tensor" or (way == "expert" and i) else 1
                down = RANKS if way == "pipeline" else 1
                corner = start + size * (j % across) / across, y + TALL * (j % down) / down
                canvas.rect(*corner, size / across, TALL / down, f"fill series-{i}")
            levels = {"data": [], "pipeline": [j / RANKS]}.get(way, [0.125, 0.375, 0.625, 0.875])
            for i, level in enumerate(levels if j else []):
                ends = [(left - between, y + level * TALL), (left, y + level * TALL)]
                canvas.path(ends[:: -1 if i % 2 else 1], "line", arrow=True)
        for i, words in enumerate(notes[way]):
            canvas.text(x, y + TALL + 18 * (i + 1), words, "small")

    def draw(canvas: Canvas) -> None:
        across = 4 if canvas.width > WIDEST else 2
        width = (canvas.width - 8 - GAP * (across - 1)) / across
        for i, name in enumerate(("attention", "MLP")):
            canvas.rect(i * 110, 2, 12, 12, f"fill series-{i}")
            canvas.text(i * 110 + 18, 13, name, "small")
        canvas.path([(196, 8), (222, 8)], "line", arrow=True)
        canvas.text(230, 13, "messages, day 1", "small")
        for i, way in enumerate(WAYS):
            panel(canvas, way, i % across * (width + GAP), TOP + i // across * (TALL + 100), width)

    about = "; ".join(f"{way}, day {day}: {', '.join(notes[way])}" for way, (day, *_) in WAYS.items())
    caption = (
        f"Four ranks hold {MODEL} in four ways; what a rank holds is filled. Under each way are the messages of a "
        f"decode step of {work.tokens} tokens and the bytes sent one after another in bfloat16, by day 3's "
        "formulas; for expert parallelism, each MLP is assumed to be a layer of experts."
    )
    return at_both_widths(draw).figure("ranks-6", "A model on four ranks, in four ways", f"{about}.", caption)

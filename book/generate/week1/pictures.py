"""Boxes and arrows of week 1: how the parts of a day hang together, each drawn from a grid of names."""

from collections.abc import Callable
from itertools import pairwise

from tiny_llm_course.course.registry import Course
from tiny_llm_course.dev.book.drawing import TIMES, Canvas, flow
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.paths import TESTS
from tiny_llm_course.programs.packages import load_solution

Boxes = dict[str, str | tuple[str, str]]


def generated_parts(course: Course) -> Parts:
    """A picture a part."""
    drawn: dict[tuple[str, str], Callable[[], str]] = {
        ("1.1", "heads"): heads,
        ("1.3", "sharing"): sharing,
        ("1.3", "qwen3"): qwen3,
        ("1.4", "swiglu"): swiglu,
        ("1.5", "stream"): stream,
        ("1.6", "steps"): steps,
    }
    return {part: draw() for part, draw in drawn.items()}


def heads() -> str:
    """Multi-head attention, from E to E."""
    kinds, lengths = ("query", "key", "value"), ("L", "S", "S")
    boxes: Boxes = {
        "attention": ("attention, in each head\nN x H x L x D", "weights"),
        "join": "join\nN x L x (H·D)",
        "out": "output\nN x L x E",
    }
    arrows: list[tuple[str, ...]] = [("attention", "join"), ("join", "out", "wo")]
    for kind, length in zip(kinds, lengths, strict=True):
        boxes[kind] = (f"{kind}\nN x {length} x E", kind)
        boxes[f"{kind}-2"] = (f"project\nN x {length} x (H·D)", kind)
        boxes[f"{kind}-3"] = (f"split\nN x H x {length} x D", kind)
        arrows += [(kind, f"{kind}-2", f"w{kind[0]}"), (f"{kind}-2", f"{kind}-3"), (f"{kind}-3", "attention")]
    rows = [list(kinds), [f"{kind}-2" for kind in kinds], [f"{kind}-3" for kind in kinds]]
    canvas = Canvas()
    flow(canvas, [*rows, ["attention"] * 3, ["", "join", ""], ["", "out", ""]], boxes, arrows)
    about = (
        "Query, key and value are each projected, by wq, wk and wv, and split into H heads. Attention runs in each "
        "head; the heads are joined again and projected by wo."
    )
    return canvas.figure("heads-1-1", "Multi-head attention, from the tokens' vectors to the output", about)


def sharing() -> str:
    """Six query heads on six, two and one key-value heads."""
    canvas = Canvas()
    boxes: Boxes = {}
    grid: list[list[str]] = []
    arrows: list[tuple[str, ...]] = []
    names = {6: "multi-head, H_kv = 6", 2: "grouped, H_kv = 2", 1: "multi-query, H_kv = 1"}
    for count, name in names.items():
        boxes[name] = f" {name}"
        boxes |= {f"q{count}-{h}": (f"Q{h}", "query") for h in range(6)}
        boxes |= {f"k{count}-{h}": (f"K{h} V{h}", "key") for h in range(count)}
        shared = [f"k{count}-{h * count // 6}" for h in range(6)]
        grid += [[name] * 6, [f"q{count}-{h}" for h in range(6)], shared]
        arrows += [(f"q{count}-{h}", shared[h]) for h in range(6)]
    flow(canvas, grid, boxes, arrows, gap=8)
    about = "Six query heads read six key-value heads, one each; or two, three neighbours each; or all the same one."
    caption = "The one in the middle is the model that comes with the course."
    return canvas.figure("sharing-1-3", "Query heads, and the key-value heads that they read", about, caption)


def qwen3() -> str:
    """Qwen3's attention, from x to the output."""
    kinds = {"query": "H", "key": "H_kv", "value": "H_kv"}
    boxes: Boxes = {
        "x": ("x\nL x E", "stream"),
        "attention": ("grouped attention\nH x L x D", "weights"),
        "join": "join\nL x (H·D)",
        "out": "output\nL x E",
    }
    arrows: list[tuple[str, ...]] = [("attention", "join"), ("join", "out", "wo")]
    steps = ("split", "norm", "RoPE", "swap")
    rows: list[list[str]] = [[] for _ in steps]
    for kind, count in kinds.items():
        boxes[f"{kind}-split"] = (f"{kind}\nL x {count} x D", kind)
        boxes |= {f"{kind}-{step}": (step, kind) for step in ("norm", "RoPE")}
        boxes[f"{kind}-swap"] = (f"swap\n{count} x L x D", kind)
        own = [step for step in steps if kind != "value" or step in ("split", "swap")]
        for row, step in zip(rows, steps, strict=True):
            row.append(f"{kind}-{step}" if step in own else "")
        arrows += [("x", f"{kind}-split", f"w{kind[0]}"), (f"{kind}-swap", "attention")]
        arrows += [(f"{kind}-{a}", f"{kind}-{b}") for a, b in pairwise(own)]
    canvas = Canvas()
    grid = [["x"] * 3, *rows, ["attention"] * 3, ["", "join", ""], ["", "out", ""]]
    flow(canvas, grid, boxes, arrows)
    about = (
        "x is projected to queries, keys and values and split into heads. Queries and keys go through a norm and RoPE, "
        "values do not. All three swap heads and length, grouped attention joins them, and wo projects the result."
    )
    return canvas.figure("qwen3-1-3", "Qwen3's attention", about, "Shapes for one of the N texts.")


def swiglu() -> str:
    """The MLP."""
    boxes: Boxes = {
        "x": ("x\nN.. x E", "stream"),
        "gate": "gate\nN.. x I",
        "up": "up\nN.. x I",
        "silu": "SiLU",
        "times": TIMES,
        "out": "output\nN.. x E",
    }
    grid = [["x", "x", "x"], ["gate", "", "up"], ["silu", "", ""], ["", "times", ""], ["", "out", ""]]
    arrows = [
        ("x", "gate", "w_gate"),
        ("x", "up", "w_up"),
        ("gate", "silu"),
        ("silu", "times"),
        ("up", "times"),
        ("times", "out", "w_down"),
    ]
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows, gap=40)
    about = (
        "x goes two ways: by w_gate and through SiLU, and by w_up. The two are multiplied, and w_down leads back to E."
    )
    return canvas.figure("swiglu-1-4", "SwiGLU, Qwen's MLP", about)


def stream() -> str:
    """One layer: the stream, and the two branches that add to it."""
    boxes: Boxes = {
        "x": ("x", "stream"),
        "norm1": "input_layernorm",
        "attention": "attention",
        "plus1": ("+", "stream"),
        "h": ("h", "stream"),
        "norm2": "post_attention_layernorm",
        "mlp": "MLP",
        "plus2": ("+", "stream"),
        "next": ("next layer", "stream"),
    }
    grid = [["x"], ["", "norm1"], ["", "attention"], ["plus1"], ["h"], ["", "norm2"], ["", "mlp"], ["plus2"], ["next"]]
    ways = [["x", "plus1", "h", "plus2", "next"], ["x", "norm1", "attention", "plus1"], ["h", "norm2", "mlp", "plus2"]]
    canvas = Canvas()
    flow(canvas, grid, boxes, [step for way in ways for step in pairwise(way)])
    about = (
        "The stream runs down the left. From x a branch goes through input_layernorm and attention and is added to the "
        "stream, which is then h; from h another goes through post_attention_layernorm and the MLP and is added too."
    )
    return canvas.figure("stream-1-5", "One layer: a stream, and two branches that add to it", about)


def steps() -> str:
    """From a text to ids, by day 6's small tokenizer."""
    load_solution()
    from tiny_llm_solution.tokenizer import ByteLevelBPE

    special, words = "<|im_start|>", ("That", " is")
    ids = ByteLevelBPE.from_file(TESTS / "week1" / "tokenizer.json").encode(special + "".join(words))
    boxes: Boxes = {
        "text": f"text\n{special}{''.join(words)}",
        "special": f"special token\n{special}",
        "plain": f"normal form\n{''.join(words)}",
        "id": f"id\n{ids[0]}",
    }
    arrows: list[tuple[str, ...]] = [("text", "special"), ("text", "plain"), ("special", "id")]
    for i, word in enumerate(words):
        boxes[f"word{i}"] = f"word\n{word.replace(' ', chr(0x2423))}"
        boxes[f"bytes{i}"] = f"bytes\n{' '.join(map(str, word.encode()))}"
        boxes[f"id{i}"] = f"id\n{ids[i + 1]}"
        arrows += [("plain", f"word{i}"), (f"word{i}", f"bytes{i}"), (f"bytes{i}", f"id{i}", "join")]
    grid = [
        ["text"] * 3,
        ["special", "plain", "plain"],
        ["", "word0", "word1"],
        ["", "bytes0", "bytes1"],
        ["id", "id0", "id1"],
    ]
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows)
    about = (
        "Special tokens are cut out; the rest is brought to its normal form, cut into words, written as bytes, joined."
    )
    return canvas.figure("steps-1-6", "From a text to ids", about)

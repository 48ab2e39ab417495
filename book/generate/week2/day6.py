"""Day 6's figures and widget: words in their lanes, a tile in threadgroup memory, matrices of 8 x 8, a split-K sum."""

import mlx.core as mx
import numpy as np
from book.generate.week1.heads import SENTENCE, SENTENCES, heads_of, model, streams_of
from book.generate.week2.day3 import NAME
from tests.week1.formulas import linear64, rms_norm64, silu64

from tiny_llm_course.dev.book.drawing import Canvas, squares, strips
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts
from tiny_llm_course.testkit.rounding import Array64, to_float64

DIGITS = 8
LANES, GROUP_SIZE, TILE, BLOCK, ROWS = 32, 64, 32, 256, 8
PROMPT = SENTENCES[2] + ". " + SENTENCES[4]  # more tokens than two matrices have rows
LANE = 4  # of the thread that the picture of a tile follows
LEFT, CELL, TILE_CELL, EIGHT_CELL = 20.0, 10.4, 5.2, 9.0  # pixels


def generated_parts() -> Parts:
    """Return the figures and the widget."""
    return {"lanes": lanes(), "tile": tile(), "eights": eights(), "split-k": split_k()}


def packed() -> tuple[Array64, Array64, Array64, list[int]]:
    """Return day 3's matrix by min and max: q, scales and biases for each weight, all O x I, and the first words."""
    from tiny_llm_solution.quantized.affine import quantize

    words, scales, biases = quantize(model().weights[NAME].astype(mx.float32))
    q = np.array(words)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    scale, bias = (np.repeat(to_float64(each), GROUP_SIZE, axis=-1) for each in (scales, biases))
    return q.reshape(len(words), -1).astype(np.float64), scale, bias, words[0].tolist()


def read_by_down(sentence: str) -> Array64:
    """Return the input of `down_proj` in layer 0, L x I."""
    weights, heads = model().layer64(0), heads_of(sentence)[0]
    stream = streams_of(sentence)[0]
    joined = np.swapaxes(heads.weights @ heads.value, 0, 1).reshape(len(stream), -1)
    added = stream + linear64(joined, weights["self_attn.o_proj.weight"])
    second = rms_norm64(added, weights["post_attention_layernorm.weight"], model().config["rms_norm_eps"])
    gate, up = (linear64(second, weights[f"mlp.{name}_proj.weight"]) for name in ("gate", "up"))
    found: Array64 = silu64(gate) * up
    return found


def lanes() -> str:
    """Draw a column for each lane: the digits of its word in row 0, their x for `dog`, and the lane's total."""
    q, scale, bias, words = packed()
    x = read_by_down(SENTENCE)[-1]
    canvas, y = Canvas(), 0.0
    grids = ((f"q of row 0, words 0 to {LANES - 1}", q[0], None), (f"x of {SENTENCE.split()[-1]}", x, "stream"))
    for name, row, role in grids:
        canvas.text(LEFT, y + FONT, name, "small strong")
        y += FONT + 7
        for digit in range(DIGITS):
            canvas.text(0, y + digit * CELL + 9, str(digit), "small mono")
        squares(canvas, LEFT, y, row[:BLOCK].reshape(LANES, -1).T, CELL, role)
        canvas.rect(LEFT, y - 1, CELL, DIGITS * CELL + 2, "frame", 2)
        y += DIGITS * CELL + 10
    products = (scale[0] * q[0] + bias[0]) * x
    of_words = products.reshape(-1, DIGITS).sum(axis=1)
    totals = np.array([of_words[lane::LANES].sum() for lane in range(LANES)])
    canvas.text(LEFT, y + FONT, f"each lane's total over all {len(of_words)} words", "small strong")
    half, top = 24.0, float(np.abs(totals).max())
    y += FONT + 7 + half
    canvas.path([(LEFT, y), (LEFT + LANES * CELL, y)], "axis")
    for lane, total in enumerate(totals):
        height = half * abs(float(total)) / top
        start = y - height if total > 0 else y
        canvas.rect(LEFT + lane * CELL + 1, start, CELL - 2, max(height, 1), "fill" if total > 0 else "hollow")
    y += half + 6
    canvas.text(LEFT + CELL / 2, y + SMALL, "lane 0", "small", "middle")
    canvas.text(LEFT + LANES * CELL, y + SMALL, f"lane {LANES - 1}", "small", "end")
    words_of_sum = f"simd_sum: {totals.sum():.3f}"
    canvas.text(LEFT + LANES * CELL / 2, y + SMALL, words_of_sum, "mono strong", "middle")
    first, met = q[0, :DIGITS], x[:DIGITS]
    about = (
        f"Two grids of {DIGITS} rows and {LANES} columns, one of digits and one of elements of x. The column of lane 0 "
        f"is framed. Its digits are {', '.join(f'{each:.0f}' for each in first)}. Below are {LANES} bars, which add up "
        f"to {totals.sum():.3f}."
    )
    caption = (
        f"Each column is one lane of a SIMD-group in its first iteration. Lane 0 has the word 0x{words[0]:x}: from its "
        f"lowest digit, q is {', '.join(f'{each:.0f}' for each in first)}. These q times their x add up to "
        f"{first @ met:.2f}, and the elements of x alone to {met.sum():.2f}. The first sum times the scale, "
        f"{scale[0, 0]:.5f}, plus the second times the bias, {bias[0, 0]:.4f}, is {of_words[0]:.3f}. Two more "
        f"iterations process the other {len(words) - LANES} words, the last of them in only 8 lanes."
    )
    return canvas.figure("lanes-2-6", "A row of packed words, by lane", about, caption)


def tile() -> str:
    """Draw the first 32 inputs of the tokens and of 32 rows of W, and their contribution to a tile of y."""
    q, scale, bias, _ = packed()
    x = read_by_down(SENTENCE)[:, :TILE]
    w = (scale * q + bias)[:TILE, :TILE]
    canvas, side = Canvas(), TILE * TILE_CELL
    gap, head = 18.0, FONT + 6
    right, bottom = side + gap, head + side + gap + head
    for left, top, name in (
        (right, head, "W transposed, 32 x 32"),
        (0, bottom, "x: row, input"),
        (right, bottom, "y"),
    ):
        canvas.text(left, top - 5, name, "small strong")
        canvas.rect(left, top, side, side, "axis")
    squares(canvas, right, head, w.T, TILE_CELL, None)
    squares(canvas, 0, bottom, x, TILE_CELL, "stream")
    squares(canvas, right, bottom, x @ w.T, TILE_CELL, "stream")
    canvas.rect(right + LANE * TILE_CELL, head, TILE_CELL, side, "frame")
    for row in range(0, TILE, 4):
        canvas.rect(0, bottom + row * TILE_CELL, side, TILE_CELL, "frame")
        canvas.rect(right + LANE * TILE_CELL, bottom + row * TILE_CELL, TILE_CELL, TILE_CELL, "frame")
    about = (
        f"Upper right: a tile of {TILE} x {TILE} weights, with one column framed. Lower left: {len(x)} rows of {TILE} "
        f"elements, and space for {TILE - len(x)} more rows. Lower right: {len(x)} rows of y. Every fourth row of x is "
        "framed, as is every fourth element of y in the column below the framed weights."
    )
    caption = (
        f"Each square is one element of x, W or their product, for the first {TILE} inputs. Each weight is unpacked "
        f"once, by one of 128 threads, and multiplied by all rows of x. The frames mark the work of lane {LANE} of "
        f"SIMD-group 0: it multiplies each weight of its column by 8 rows of x. <i>{SENTENCE}</i> has {len(x)} tokens, "
        f"so {TILE - len(x)} rows of this tile are wasted."
    )
    return canvas.figure("tile-2-6", "A tile of x, a tile of W, and their product", about, caption)


def eights() -> str:
    """Draw a SIMD-group's quarter of a tile: two matrices of x, two of W, four sums."""
    q, scale, bias, _ = packed()
    x = read_by_down(PROMPT)[:16, :8]
    w = (scale * q + bias)[:16, :8]
    canvas, side, gap = Canvas(), 8 * EIGHT_CELL, 12.0
    sums, largest = x @ w.T, float(np.abs(x @ w.T).max())
    left, head = side + gap, FONT + 8
    starts = [left + i * (side + gap) for i in range(2)]
    tops = [head + side + gap + FONT + i * (side + SMALL + 10) for i in range(2)]
    canvas.text(starts[0], FONT, "W transposed: input, output", "small strong")
    canvas.text(0, tops[0] - 7, "x: row, input", "small strong")
    for i in range(2):
        some = slice(8 * i, 8 * i + 8)
        squares(canvas, 0, tops[i], x[some], EIGHT_CELL, "stream", float(np.abs(x).max()))
        canvas.rect(0, tops[i], side, side, "frame", 2)
        squares(canvas, starts[i], head, w[some].T, EIGHT_CELL, None, float(np.abs(w).max()))
        canvas.rect(starts[i], head, side, side, "frame", 2)
        for j in range(2):
            part = sums[some, 8 * j : 8 * j + 8]
            squares(canvas, starts[j], tops[i], part, EIGHT_CELL, "stream", largest)
            canvas.rect(starts[j], tops[i], side, side, "frame", 2)
            name = f"sums[{i}][{j}]"
            canvas.text(starts[j] + side / 2, tops[i] + side + SMALL - 1, name, "small mono", "middle")
    about = (
        "Two matrices of x, one above the other, two of W, side by side, and their four products, each 8 x 8. "
        f"The largest magnitude in the products is {largest:.3f}."
    )
    caption = (
        f"Each frame is a matrix of 8 x 8 elements, for eight of {q.shape[1]} inputs, 16 tokens of a longer prompt and "
        "16 outputs. Four matrices are loaded, and each is used in two of the four products. A product of two matrices "
        "is a single operation of a SIMD-group with 512 multiply-adds. The GPU decides which lane holds which element."
    )
    return canvas.figure("eights-2-6", "A quarter of a tile, computed from matrices of 8 x 8", about, caption)


def sums_of_blocks() -> tuple[list[int], Array64]:
    """Return the inputs of each block of 256, and the products of W and x for `dog` summed over each, blocks x O."""
    q, scale, bias, _ = packed()
    x, w = read_by_down(SENTENCE)[-1], scale * q + bias
    cuts = [slice(first, first + BLOCK) for first in range(0, len(x), BLOCK)]
    return [len(x[cut]) for cut in cuts], np.stack([w[:, cut] @ x[cut] for cut in cuts])


def split_k() -> str:
    """Return the widget, with a figure of the first outputs of three parts for readers without JavaScript."""
    sizes, every = sums_of_blocks()
    _, scales, _, words = packed()
    arrays = every.shape[1] * (4 * len(words) + 2 * 4 * scales.shape[1] // GROUP_SIZE)
    data = {"sums": [[round(float(each), 4) for each in block] for block in every], "inputs": sizes, "rows": ROWS}
    return element("split-k", data | {"packed": arrays // 1024}, parts(sizes, every[:, :LANES]).strip())


def parts(sizes: list[int], sums: Array64) -> str:
    """Draw the first outputs of `dog` for each block of inputs, and their sum."""
    canvas = Canvas()
    names = [*(f"part {i}" for i in range(len(sums))), "y"]
    strips(canvas, np.vstack([sums, sums.sum(axis=0)]), names, "stream", total=True)
    about = f"Four rows of {LANES} bars: three partial sums of the first outputs and, below a line, their total."
    caption = (
        f"Each bar of a part is one of the first {LANES} outputs for <code>{SENTENCE.split()[-1]}</code>, summed over "
        f"one block of {sizes[0]}, {sizes[1]} or {sizes[2]} inputs. Output 0 is "
        f"{' + '.join(f'{each:.3f}' for each in sums[:, 0])} = {sums[:, 0].sum():.3f}, which equals the sum over "
        "the lanes above."
    )
    return canvas.figure("parts-2-6", "A split-K sum of three parts", about, caption.replace("+ -", "- "))

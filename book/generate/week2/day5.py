"""Day 5's widget, the cache lines that a SIMD-group touches; a row's squares reduced to one sum; memory banks."""

import numpy as np
from book.generate.week1.heads import SENTENCE, SHOWN, model, streams_of

from tiny_llm_course.dev.book.drawing import Canvas, at_both_widths, squares
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL, WIDEST
from tiny_llm_course.dev.book.html import element
from tiny_llm_course.dev.book.parts import Parts

LANES = 32  # threads of a SIMD-group
LINE = 16  # float32 numbers in 64 bytes
SHOWN_LINES = 8
SIMDGROUPS = 2  # of a row's threadgroup
CELL, GAP = 10.5, 26.0  # pixels
LEFT, WIDTH, LEVEL = 56.0, 312.0, 26.0
STRIDES = 1, 2, 32, 33  # of the accesses to threadgroup memory


def generated_parts() -> Parts:
    """Return the widget, with the figure of two loads as its still, and the other figures."""
    data = {"threads": LANES, "line": LINE}
    return {"line-loads": element("line-loads", data, touched().rstrip()), "tree": tree(), "banks": banks()}


def touched() -> str:
    """Draw some cache lines, and the numbers in them that 32 threads read at once."""
    lanes, told = np.arange(LANES), dict[str, str]()

    def draw(canvas: Canvas) -> None:
        cell = CELL * canvas.width / WIDEST
        panels = {"thread t reads element t": lanes, "thread t reads element 4t": 4 * lanes}
        for i, (name, places) in enumerate(panels.items()):
            left, top = i * (LINE * cell + GAP), 2 * SMALL + 12
            read = np.zeros((SHOWN_LINES, LINE))
            read.flat[places] = 1
            lines = np.flatnonzero(read.any(axis=1))
            canvas.text(left, SMALL, name, "small")
            canvas.text(left, 2 * SMALL + 4, f"{len(lines)} lines of 64 bytes", "small strong")
            squares(canvas, left, top, read, cell, "stream", 1.5, read == 0)
            for line in range(SHOWN_LINES):
                looks = "frame" if line in lines else "axis"
                canvas.rect(left, top + line * cell, LINE * cell, cell, looks)
            told[name] = f"{len(places)} elements in {len(lines)} of the {SHOWN_LINES} lines"

    canvas = at_both_widths(draw)
    each = "; ".join(f"{name}: {numbers}" for name, numbers in told.items())
    about = f"Two panels of eight cache lines, each with 16 elements. {each}."
    caption = (
        f"Each row is a cache line of {LINE} elements. A square is an element that the 32 threads of a SIMD-group read "
        "with their first load, a dot is an element that they do not read, and a frame marks a line that is fetched. "
        "On the left, the threads use everything that is fetched; on the right, they use a quarter of it."
    )
    return canvas.figure("touched-2-5", "The cache lines that 32 threads touch", about, caption)


def tree() -> str:
    """Draw the reduction of the last token's squares: within each SIMD-group in steps, then across SIMD-groups."""
    row = streams_of(SENTENCE)[SHOWN[0]][-1]
    token, threads = SENTENCE.split()[-1], LANES * SIMDGROUPS
    sums = np.square(row).reshape(-1, threads).sum(axis=0)
    canvas, y, level = Canvas(), 0.0, sums
    canvas.text(LEFT, FONT, f"{len(row)} squares, {len(row) // threads} for each of {threads} threads", "small")
    y += FONT + 8
    while True:
        step, top = WIDTH / len(level), float(level.max())
        for i, value in enumerate(level):
            height = (LEVEL - 6) * float(value) / top
            canvas.rect(LEFT + i * step + 0.6, y + LEVEL - 6 - height, step - 1.2, height, "fill role-stream")
        canvas.path([(LEFT, y + LEVEL - 5), (LEFT + WIDTH, y + LEVEL - 5)], "axis")
        canvas.text(LEFT - 6, y + LEVEL - 8, f"{len(level)} sums", "small", "end")
        y += LEVEL
        if len(level) == SIMDGROUPS:
            break
        level = level.reshape(-1, 2).sum(axis=1)
    for i, value in enumerate(level):
        words = f"SIMD-group {i}: {value:.1f}"
        canvas.text(LEFT + (i + 0.5) * WIDTH / SIMDGROUPS, y + SMALL - 2, words, "small", "middle")
    y += SMALL + 12
    middle = LEFT + WIDTH / 2
    canvas.path([(LEFT, y), (LEFT + 76, y)], "line")
    canvas.path([(LEFT + WIDTH - 76, y), (LEFT + WIDTH, y)], "line")
    canvas.text(middle, y + 4, "threadgroup_barrier", "small mono", "middle")
    total, eps = float(level.sum()), model().config["rms_norm_eps"]
    scale = (total / len(row) + eps) ** -0.5
    canvas.text(middle, y + FONT + 12, f"total {total:.1f}, mean {total / len(row):.3f}", "", "middle")
    canvas.text(middle, y + 2 * FONT + 18, f"1 / sqrt(mean + eps): {scale:.3f}", "strong", "middle")
    about = (
        f"Rows of bars: {threads} sums, then half as many in each row, down to two, which are "
        f"{' and '.join(f'{value:.1f}' for value in level)}. Below a barrier is their total, {total:.1f}."
    )
    caption = (
        f"RMSNorm of <code>{token}</code> before layer {SHOWN[0]}. Each bar of the first row is a thread's sum of "
        f"squares. Each bar below is the sum of two bars, and each row has its own scale. <code>simd_sum</code> "
        "reduces 32 values to one without threadgroup memory or a barrier. Only the sums of the SIMD-groups have to be "
        "written to threadgroup memory, with a barrier before they are read. The order of the additions is up to the "
        "GPU."
    )
    return canvas.figure("tree-2-5", "Reduction of a row's squares to one sum", about, caption)


def banks() -> str:
    """Draw the banks that 32 threads access, for each stride."""
    canvas, told = Canvas(), []
    for i, stride in enumerate(STRIDES):
        counts, y = np.bincount(np.arange(LANES) * stride % LANES, minlength=LANES), i * 42.0
        rounds, used = int(counts.max()), np.count_nonzero(counts)
        where = "1 bank" if used == 1 else f"{used} banks"
        told.append(f"stride {stride}: {where}, {rounds} round{'s' * (rounds > 1)}")
        canvas.text(0, y + SMALL, told[-1], "small strong")
        for bank, count in enumerate(counts):
            canvas.rect(bank * 11.0, y + SMALL + 6, 11.0, 14.0, "fill role-stream" if count else "axis")
            if count:
                canvas.rect(bank * 11.0, y + SMALL + 6, 11.0, 14.0, "frame")
    canvas.text(0, canvas.bottom + SMALL + 2, "bank 0", "small")
    canvas.text(LANES * 11.0, canvas.bottom - SMALL / 4, f"bank {LANES - 1}", "small", "end")
    caption = (
        f"The banks of the elements 0, s, 2s and so on up to {LANES - 1}s, which {LANES} threads access with stride s. "
        "A filled box is a bank with at least one of the elements. Elements in the same bank are served in rounds."
    )
    return canvas.figure("banks-2-5", "The banks that 32 threads access", f"{'; '.join(told)}.", caption)

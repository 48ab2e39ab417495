"""Known programs of task 1.2.1, rotation angles."""

import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.2.1")


known.probe_table(
    few=lambda program: program(6, 5, 300),
    large_base=lambda program: program(8, 4, 1000000.0),
    far=lambda program: program(4, 2500, 50),
)


@known.sized("D 128, 40,960 positions, float32")
def sized(program):
    return lambda: program(128, 40960, 1e6)


known.change(
    "exponent-i-over-D",
    ("-2.0 * pair / dims", "-pair / dims"),
    fact="the exponent is -i/D instead of -2i/D",
    question="The pairs are numbered 0 to D/2 - 1. How close to 1/base should the pace of the last one come?",
)
known.change(
    "positions-from-1",
    ("mx.arange(seq_len,", "mx.arange(1, seq_len + 1,"),
    fact="positions are counted from 1",
    question="How far should the first token be turned?",
)
known.change(
    "base-hard-coded",
    ("mx.power(base,", "mx.power(10000,"),
    fact="the base is always 10000, whatever `base` says",
    question="Qwen3's base is 1000000. Which number does your function use for it?",
)
known.change(
    "positive-exponent",
    ("-2.0 * pair", "2.0 * pair"),
    fact="the exponent is 2i/D, without its minus sign",
    question="Should a later pair turn faster than pair 0, or slower?",
)
known.change(
    "pairs-from-1",
    ("mx.arange(dims // 2,", "mx.arange(1, dims // 2 + 1,"),
    fact="the pairs are counted from 1, so that the exponents are -2/D to -1",
    question="How far should the first pair turn from one position to the next?",
)
known.change(
    "last-pace-is-1-over-base",
    ("-2.0 * pair / dims", "-mx.linspace(0, 1, dims // 2)"),
    fact="the exponents run from 0 to exactly -1, with D/2 - 1 equal steps between them",
    question="With D = 4 there are two pairs. Which two exponents does -2i/D give?",
)
known.change(
    "exponent-4i-over-D",
    ("-2.0 * pair", "-4.0 * pair"),
    fact="the exponent is -4i/D: twice the right one",
    question="Which numbers does your i take: 0, 1, 2 and so on, or 0, 2, 4 and so on? And what is it divided by?",
)
known.change(
    "even-paces",
    ("mx.power(base, -2.0 * pair / dims)", "1 - 2.0 * pair / dims"),
    fact="the paces fall in equal steps, 1 - 2i/D, instead of by equal factors",
    question="What is base to the power of 0, and to the power of -1/2?",
)
known.change(
    "float16-positions",
    ("seq_len, dtype=mx.float32)[:, None]", "seq_len).astype(mx.float16).astype(mx.float32)[:, None]"),
    fact="the positions are counted in float16",
    question="Which whole number comes after 2048 in float16?",
)
known.change(
    "float16-result",
    ("return mx", "return (mx"),
    ("* frequencies", "* frequencies).astype(mx.float16)"),
    fact="the angles are kept in float16",
    question="At position 2000, how far apart are the angles that float16 can hold?",
)
known.change(
    "transposed",
    ("mx.arange(seq_len, dtype=mx.float32)[:, None] * frequencies", "mx.arange(seq_len) * frequencies[:, None]"),
    fact="the result is D/2 x seq_len, one row for each pair",
    question="Which of the two is a row of the result: a position or a pair?",
)
known.change(
    "angles-twice",
    ("[:, None] * frequencies", "[:, None] * mx.repeat(frequencies, 2)"),
    fact="every angle stands there twice, side by side, once for each feature of its pair",
    question="How many angles does a pair of features need?",
)
known.change(
    "angles-in-two-halves",
    ("[:, None] * frequencies", "[:, None] * mx.tile(frequencies, 2)"),
    fact="all D/2 angles stand there twice, one set behind the other",
    question="How many angles does a pair of features need?",
)
known.change(
    "only-paces",
    ("mx.arange(seq_len, dtype=mx.float32)", "mx.ones(seq_len)"),
    fact="every position has the paces of position 1, so that nothing grows",
    question="How far has a pair turned at position 4, if it turns by 0.1 a position?",
)
known.change(
    "positions-not-a-column",
    ("[:, None] * frequencies", " * frequencies"),
    fact="positions and paces are multiplied one by one, and not each with each",
    question="How many angles do 5 positions and 3 pairs need?",
)
known.change(
    "cosines",
    ("return mx.arange(", "return mx.cos(mx.arange("),
    ("* frequencies", "* frequencies)"),
    fact="the result holds the cosines of the angles",
    question="How far has any pair turned at position 0?",
)
known.change(
    "degrees",
    ("[:, None] * frequencies", "[:, None] * frequencies * (180 / 3.141592653589793)"),
    fact="the angles are in degrees",
    question="Which unit do mx.cos and mx.sin take?",
)


@known.accepted("by-logarithms")
def by_logarithms(dims, seq_len, base):
    if dims % 2 == 1:
        raise ValueError("odd")
    slower = mx.log(mx.array(float(base))) * (mx.arange(dims // 2) / (dims / 2))
    return mx.outer(mx.arange(seq_len).astype(mx.float32), mx.exp(-slower))


@known.accepted("python-loop")
def by_python_loop(dims, seq_len, base):
    if dims % 2 == 1:
        raise ValueError("odd")
    return mx.array([[p / base ** (i / dims) for i in range(0, dims, 2)] for p in range(seq_len)], dtype=mx.float32)

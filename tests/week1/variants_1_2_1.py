"""Reference variants of task 1.2.1, rotation angles."""

import mlx.core as mx

from tiny_llm_course.testkit.variants import Variants

known = Variants("1.2.1")


known.probe_table(
    few=lambda program: program(6, 5, 300),
    large_base=lambda program: program(8, 4, 1000000.0),
    # One pair, whose frequency is exactly 1 however it is computed.
    far=lambda program: program(2, 2500, 50),
)


@known.sized("D 128, 40,960 positions, float32")
def sized(program):
    return lambda: program(128, 40960, 1e6)


known.change(
    "exponent-i-over-D",
    ("-2.0 * pair / dims", "-pair / dims"),
    fact="the exponent is -i/D instead of -2i/D",
    question="The pairs are numbered 0 to D/2 - 1. How close to 1/base should the frequency of the last one be?",
)
known.change(
    "positions-from-1",
    ("mx.arange(seq_len,", "mx.arange(1, seq_len + 1,"),
    fact="positions are counted from 1",
    question="By what angle should the first token be rotated?",
)
known.change(
    "base-hard-coded",
    ("mx.power(base,", "mx.power(10000,"),
    fact="the base is always 10000, and `base` is ignored",
    question="Qwen3's base is 1000000. Which value does your function use for it?",
)
known.change(
    "positive-exponent",
    ("-2.0 * pair", "2.0 * pair"),
    fact="the exponent is 2i/D, without its minus sign",
    question="Should a later pair rotate faster than pair 0, or slower?",
)
known.change(
    "pairs-from-1",
    ("mx.arange(dims // 2,", "mx.arange(1, dims // 2 + 1,"),
    fact="the pairs are counted from 1, so the exponents run from -2/D to -1",
    question="By what angle should the first pair rotate from one position to the next?",
)
known.change(
    "last-pace-is-1-over-base",
    ("-2.0 * pair / dims", "-mx.linspace(0, 1, dims // 2)"),
    fact="the exponents run from 0 to exactly -1, in D/2 - 1 equal steps",
    question="With D = 4 there are two pairs. Which two exponents does -2i/D give?",
)
known.change(
    "exponent-4i-over-D",
    ("-2.0 * pair", "-4.0 * pair"),
    fact="the exponent is -4i/D, twice the correct one",
    question="Does your i take the values 0, 1, 2, ... or 0, 2, 4, ...? And what is it divided by?",
)
known.change(
    "even-paces",
    ("mx.power(base, -2.0 * pair / dims)", "1 - 2.0 * pair / dims"),
    fact="the frequencies fall linearly, as 1 - 2i/D, instead of geometrically",
    question="What is base to the power of 0, and to the power of -1/2?",
)
known.change(
    "float16-positions",
    ("seq_len, dtype=mx.float32)[:, None]", "seq_len).astype(mx.float16).astype(mx.float32)[:, None]"),
    fact="the positions are float16",
    question="Which integer follows 2048 in float16?",
)
known.change(
    "float16-result",
    ("return mx", "return (mx"),
    ("* frequencies", "* frequencies).astype(mx.float16)"),
    fact="the angles are stored in float16",
    question="At position 2000, how far apart are adjacent float16 numbers?",
)
known.change(
    "transposed",
    ("mx.arange(seq_len, dtype=mx.float32)[:, None] * frequencies", "mx.arange(seq_len) * frequencies[:, None]"),
    fact="the result is D/2 x seq_len, with one row per pair",
    question="What does a row of the result stand for: a position, or a pair?",
)
known.change(
    "angles-twice",
    ("[:, None] * frequencies", "[:, None] * mx.repeat(frequencies, 2)"),
    fact="every angle is repeated next to itself, once for each feature of its pair",
    question="How many angles does a pair of features need?",
)
known.change(
    "angles-in-two-halves",
    ("[:, None] * frequencies", "[:, None] * mx.tile(frequencies, 2)"),
    fact="the block of D/2 angles is concatenated with itself",
    question="How many angles does a pair of features need?",
)
known.change(
    "only-paces",
    ("mx.arange(seq_len, dtype=mx.float32)", "mx.ones(seq_len)"),
    fact="every position has the angles of position 1",
    question="By what angle is a pair rotated at position 4, if it rotates by 0.1 per position?",
)
known.change(
    "positions-not-a-column",
    ("[:, None] * frequencies", " * frequencies"),
    fact="positions and frequencies are multiplied elementwise instead of as an outer product",
    question="How many angles do 5 positions and 3 pairs need?",
)
known.change(
    "cosines",
    ("return mx.arange(", "return mx.cos(mx.arange("),
    ("* frequencies", "* frequencies)"),
    fact="the result holds the cosines of the angles",
    question="By what angle is any pair rotated at position 0?",
)
known.change(
    "degrees",
    ("[:, None] * frequencies", "[:, None] * frequencies * (180 / 3.141592653589793)"),
    fact="the angles are in degrees",
    question="Which unit do mx.cos and mx.sin take?",
)
known.change(
    "angles-modulo-a-turn",
    ("* frequencies", "* frequencies % (2 * 3.141592653589793)"),
    fact="the angles are reduced modulo 2 pi",
    question="Which number is the angle of pair 0 at position 10?",
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

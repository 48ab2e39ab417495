"""Known programs of task 4.2.1, queries, keys and values from one projection."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.2.1")


def fused_features(seed, heads, kv_heads, dims=5, dtype=mx.float32):
    return normals(seed, dtype)(2, 3, (heads + 2 * kv_heads) * dims)


known.probe_table(
    blocks=lambda program: program(fused_features(21, 4, 2), 4, 2, "blocks"),
    interleaved=lambda program: program(fused_features(22, 4, 2), 4, 2, "interleaved"),
    blocks_without_groups=lambda program: program(fused_features(23, 3, 3), 3, 3, "blocks"),
    interleaved_without_groups=lambda program: program(fused_features(24, 3, 3), 3, 3, "interleaved"),
    blocks_of_thirds=lambda program: program(fused_features(29, 6, 3), 6, 3, "blocks"),
    one_head_for_all=lambda program: program(fused_features(25, 4, 1), 4, 1, "interleaved"),
    one_head=lambda program: program(fused_features(26, 1, 1), 1, 1, "blocks"),
    default=lambda program: program(fused_features(27, 4, 2), 4, 2),
)
known.probe_table(
    mx.float16, half=lambda program: program(fused_features(28, 4, 2, dtype=mx.float16), 4, 2, "interleaved")
)


@known.sized("512 tokens, H 16, H_kv 8, D 128, plus an addition, float32")
def sized(program):
    fused = fused_features(1, 16, 8, 128)
    fused = mx.concatenate([fused] * 171, axis=1)
    mx.eval(fused)
    # Without the addition nothing is copied, and nothing takes time.
    return lambda: [x + 1 for x in program(fused, 16, 8, "interleaved")]


known.change(
    "layouts-exchanged",
    ('layout == "blocks"', 'layout == "interleaved"'),
    fact="the two layouts are swapped",
    question="In which layout do all queries precede the first key?",
)
known.change(
    "always-blocks",
    ('layout == "blocks"', "layout in LAYOUTS"),
    fact="the features are always split as blocks: all queries, all keys, all values",
    question="Interleaved, with two heads and no groups: which vector is a token's second?",
)
known.change(
    "always-interleaved",
    ('layout == "blocks"', "layout is None"),
    fact="the features are always split as interleaved, head by head",
    question="In blocks, with two heads: which vector is a token's second?",
)
known.change(
    "keys-and-values-exchanged",
    ("key.swapaxes(-3, -2), value", "value.swapaxes(-3, -2), key"),
    fact="keys and values are swapped",
    question="Which of the three parts comes last, and which did you return last?",
)
for layout, part in (("blocks", "query, key, value = mx"), ("interleaved", "key, value = vectors")):
    known.change(
        f"exchanged-in-{layout}",
        (part, part.replace("key, value", "value, key")),
        fact=f"keys and values are swapped in the layout {layout}",
        question=f"In {layout}, which comes first: the key or the value?",
    )
known.together("exchanged-in-blocks", "exchanged-in-interleaved", makes="keys-and-values-exchanged")
known.together("exchanged-in-blocks", "keys-and-values-exchanged", makes="exchanged-in-interleaved")
known.together("exchanged-in-interleaved", "keys-and-values-exchanged", makes="exchanged-in-blocks")
known.change(
    "thirds",
    ("[num_heads, num_heads + num_kv_heads]", "3"),
    fact="blocks are cut into three equal parts, even if keys and values have fewer heads than queries",
    question="With four query heads and two KV heads, what fraction of the features is queries?",
)
known.change(
    "thirds-of-the-features",
    ("mx.unflatten(fused, -1, (count, -1))", "mx.split(fused, 3, axis=-1)"),
    (
        "mx.split(vectors, [num_heads, num_heads + num_kv_heads], axis=-2)",
        "(mx.unflatten(x, -1, (n, fused.shape[-1] // count))"
        " for x, n in zip(vectors, (num_heads, num_kv_heads, num_kv_heads)))",
    ),
    fact="in blocks, the features are cut into three equal parts before they are split into heads",
    question="With six query heads and three KV heads, what fraction of the features is queries?",
)
known.change(
    "three-times-the-heads",
    ("mx.unflatten(fused, -1, (count, -1))", "mx.unflatten(fused, -1, (3, num_heads, fused.shape[-1] // count))"),
    ("mx.split(vectors, [num_heads, num_heads + num_kv_heads], axis=-2)", "(vectors[..., i, :, :] for i in range(3))"),
    fact="in blocks, the features are reshaped to 3 x H x D, which fails if H_kv is less than H",
    question="With four query heads and two KV heads, how many vectors of D features has a token?",
)
known.change(
    "three-vectors-a-head",
    ("(num_kv_heads, group + 2, -1)", "(num_heads, 3, fused.shape[-1] // count)"),
    ("vectors[..., :group, :].flatten(-3, -2)", "vectors[..., 0, :]"),
    ("vectors[..., group, :], vectors[..., group + 1, :]", "vectors[..., 1, :], vectors[..., 2, :]"),
    fact="interleaved, the features are reshaped to H x 3 x D, which fails if H_kv is less than H",
    question="With four query heads and two KV heads, how many vectors does a group have?",
)
known.change(
    "sizes-for-places",
    ("[num_heads, num_heads + num_kv_heads]", "[num_heads, num_kv_heads]"),
    fact="blocks are cut at H and at H_kv, as if mx.split took sizes instead of indices",
    question="After how many vectors is the second cut?",
)
known.change(
    "straight-to-heads",
    (
        "return query.swapaxes(-3, -2), key.swapaxes(-3, -2), value.swapaxes(-3, -2)",
        "def turned(x): return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])\n"
        "return turned(query), turned(key), turned(value)",
    ),
    fact="each part is reshaped straight to heads x length, without swapping these two axes",
    question="After that reshape, which token do the numbers of head 1, position 0 come from?",
)
known.change(
    "heads-after-the-length",
    ("return query.swapaxes(-3, -2), key.swapaxes(-3, -2), value.swapaxes(-3, -2)", "return query, key, value"),
    fact="the heads stay after the length: N.. x L x H x D",
    question="Over which two axes will the product of queries and keys run?",
)
known.change(
    "features-dealt-out",
    ("mx.unflatten(fused, -1, (count, -1))", "mx.unflatten(fused, -1, (-1, count)).swapaxes(-1, -2)"),
    (
        "mx.unflatten(fused, -1, (num_kv_heads, group + 2, -1))",
        "mx.unflatten(mx.unflatten(fused, -1, (-1, count)).swapaxes(-1, -2), -2, (num_kv_heads, group + 2))",
    ),
    fact="the features are split as D x heads instead of heads x D, which interleaves the heads",
    question="Are the D features of a head contiguous, or H apart?",
)
known.change(
    "group-outside",
    ("vectors[..., :group, :].flatten", "vectors[..., :group, :].swapaxes(-3, -2).flatten"),
    fact="interleaved, the first query head of each group comes first, then the second of each",
    question="With four query heads and two KV heads, which group is query head 1 in?",
)
known.change(
    "vectors-before-groups",
    ("(num_kv_heads, group + 2, -1))", "(group + 2, num_kv_heads, -1)).swapaxes(-3, -2)"),
    fact="interleaved, the features are split as (H/H_kv + 2) x H_kv instead of H_kv x (H/H_kv + 2)",
    question="Interleaved, what follows a token's first query: another query of its group, or of the next group?",
)
known.change(
    "queries-after-key-value",
    ("vectors[..., :group, :].flatten", "vectors[..., 2:, :].flatten"),
    ("vectors[..., group, :], vectors[..., group + 1, :]", "vectors[..., 0, :], vectors[..., 1, :]"),
    fact="interleaved, a group is read as key, value, queries",
    question="What comes first in a group, according to the docstring?",
)
known.change(
    "key-before-its-queries",
    ("vectors[..., :group, :].flatten", "vectors[..., 1 : group + 1, :].flatten"),
    ("vectors[..., group, :], vectors", "vectors[..., 0, :], vectors"),
    fact="interleaved, a group is read as key, queries, value",
    question="What comes first in a group, according to the docstring?",
)
known.change(
    "cut-after-twice-the-heads",
    ("[num_heads, num_heads + num_kv_heads]", "[num_heads, 2 * num_heads]"),
    fact="blocks are cut at H and at 2 H, as if there were as many keys as queries",
    question="With four query heads and two KV heads, after how many vectors do the values start?",
)


def refused(fused, num_heads, num_kv_heads, layout):
    count = num_heads + 2 * num_kv_heads
    if layout not in ("blocks", "interleaved"):
        raise ValueError(f"no layout {layout}")
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads in groups of {num_kv_heads}")
    if fused.shape[-1] % count:
        raise ValueError(f"{fused.shape[-1]} features of {count} vectors")
    return fused.shape[-1] // count


@known.accepted("rows-by-their-numbers")
def by_numbers(fused, num_heads, num_kv_heads, layout="blocks"):
    dims = refused(fused, num_heads, num_kv_heads, layout)
    group = num_heads // num_kv_heads
    vectors = mx.unflatten(fused, -1, (-1, dims)).swapaxes(-3, -2)
    heads = mx.arange(num_heads)
    kv_heads = mx.arange(num_kv_heads)
    if layout == "blocks":
        return (
            vectors[..., :num_heads, :, :],
            vectors[..., num_heads : num_heads + num_kv_heads, :, :],
            vectors[..., num_heads + num_kv_heads :, :, :],
        )
    first = kv_heads * (group + 2)
    return (
        mx.take(vectors, heads + heads // group * 2, axis=-3),
        mx.take(vectors, first + group, axis=-3),
        mx.take(vectors, first + group + 1, axis=-3),
    )


@known.accepted("slice-by-slice")
def slice_by_slice(fused, num_heads, num_kv_heads, layout="blocks"):
    dims = refused(fused, num_heads, num_kv_heads, layout)
    group = num_heads // num_kv_heads
    queries, keys, values = [], [], []
    for k in range(num_kv_heads):
        for i in range(group):
            place = k * group + i if layout == "blocks" else k * (group + 2) + i
            queries.append(fused[..., place * dims : (place + 1) * dims])
        for parts, blocks, behind in ((keys, num_heads, 0), (values, num_heads + num_kv_heads, 1)):
            place = blocks + k if layout == "blocks" else k * (group + 2) + group + behind
            parts.append(fused[..., place * dims : (place + 1) * dims])
    return tuple(mx.stack(parts, axis=-3) for parts in (queries, keys, values))

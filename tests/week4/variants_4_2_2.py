"""Known programs of task 4.2.2, from one layout of the fused weight to another."""

import mlx.core as mx
from tiny_llm_solution.fused_qkv.layouts import split_qkv

from tiny_llm_course.testkit.variants import Variants

known = Variants("4.2.2")

WAYS = (("blocks", "interleaved"), ("interleaved", "blocks"))

known.probe_table(
    to_interleaved=lambda program: program(6, 3, 4, *WAYS[0]),
    to_blocks=lambda program: program(6, 3, 4, *WAYS[1]),
    without_groups=lambda program: tuple(program(4, 4, 3, *way) for way in WAYS),
    one_head_for_all=lambda program: tuple(program(4, 1, 3, *way) for way in WAYS),
    of_single_features=lambda program: tuple(program(4, 2, 1, *way) for way in WAYS),
    one_head=lambda program: tuple(program(1, 1, 4, *way) for way in WAYS),
    to_itself=lambda program: (program(6, 3, 4, "blocks", "blocks"), program(6, 3, 4, "interleaved", "interleaved")),
    of_no_layout=lambda program: program(6, 3, 5, "rows", "rows"),
    from_no_layout=lambda program: program(6, 3, 5, "rows", "blocks"),
)


@known.sized("H 4,096, H_kv 1,024, D 128")
def sized(program):
    return lambda: program(4096, 1024, 128, "blocks", "interleaved")


known.written("both layouts checked", ("if target not in LAYOUTS", "if not {source, target} <= {*LAYOUTS}"))
known.change(
    "to-itself-unasked",
    (
        "if target not in",
        "if source == target:\n    return mx.arange((num_heads + 2 * num_kv_heads) * head_dim)\nif target not in",
    ),
    fact="equal source and target return early, before the layout and the groups are validated",
    question='Is "rows" a layout? And what does your first line check?',
)
known.change(
    "the-inverse",
    ("num_kv_heads, source)", "num_kv_heads, target)"),
    ('if target == "blocks"', 'if source == "blocks"'),
    fact="the rows convert from `target` to `source`: the inverse permutation",
    question="w[rows] puts row rows[1] of w at index 1. Which layout has w, then, and which the result?",
)
known.change(
    "every-row-in-its-place",
    ("query, key, value = split_qkv", "return rows\nquery, key, value = split_qkv"),
    fact="the identity permutation is returned",
    question="Two heads of one feature: at which index is k0 in blocks, and at which interleaved?",
)
known.change(
    "source-always-blocks",
    ("num_kv_heads, source)", 'num_kv_heads, "blocks")'),
    fact="the source is always read as blocks",
    question="Where does your code use `source`?",
)
known.change(
    "source-always-interleaved",
    ("num_kv_heads, source)", 'num_kv_heads, "interleaved")'),
    fact="the source is always read as interleaved",
    question="Where does your code use `source`?",
)
known.change(
    "target-always-interleaved",
    ('if target == "blocks"', "if target is None"),
    fact="the target is always interleaved",
    question="In which order are the parts if the target is blocks?",
)
known.change(
    "target-always-blocks",
    ('if target == "blocks"', "if target in LAYOUTS"),
    fact="the target is always blocks",
    question="In which order are the parts if the target is interleaved?",
)
known.change(
    "numbers-of-vectors",
    (
        "rows = mx.arange((num_heads + 2 * num_kv_heads) * head_dim, dtype=mx.int32)",
        "head_dim = 1\nrows = mx.arange(num_heads + 2 * num_kv_heads, dtype=mx.int32)",
    ),
    fact="the indices are of whole vectors, as if each head had a single row",
    question="How many rows has the fused weight, and how many indices do you return?",
)
known.change(
    "no-whole-numbers",
    ("dtype=mx.int32", "dtype=mx.float32"),
    fact="the row indices are float32",
    question="Which dtypes can index an array?",
)
known.change(
    "values-before-keys",
    ("query.flatten(), key.flatten(), value.flatten()", "query.flatten(), value.flatten(), key.flatten()"),
    ("[groups, key, value]", "[groups, value, key]"),
    fact="values precede keys in the target",
    question="What follows k0, in both layouts?",
)
SPLIT = "query, key, value = split_qkv(rows[None], num_heads, num_kv_heads, source)"
SPLIT_BY_REMAINDER = f"""{SPLIT}
if source == "interleaved":
    query = mx.concatenate([query[j :: num_heads // num_kv_heads] for j in range(num_heads // num_kv_heads)])
"""
THIRDS = """
if source == "blocks":
    thirds = rows.reshape(3, num_heads, head_dim)
else:
    thirds = rows.reshape(num_heads, 3, head_dim).swapaxes(0, 1)
query, key, value = thirds[:, :, None]
"""
for name, first in (
    ("three-times-the-heads", ""),
    ("three-times-the-heads-unless-equal", "if source == target: return rows"),
):
    known.change(
        name,
        (SPLIT, f"{SPLIT}\n{first}{THIRDS}"),
        fact="the rows are reshaped to 3 x H x D or H x 3 x D, which fails if H_kv is less than H",
        question="With six query heads and two KV heads, how many vectors does the weight have, and how many are keys?",
    )
known.change(
    "group-outside",
    ("query.reshape(num_kv_heads, -1, head_dim)", "query.reshape(-1, num_kv_heads, head_dim).swapaxes(0, 1)"),
    fact="in an interleaved target, query head h is put in group h % H_kv",
    question="With six query heads and three KV heads, which two query heads are in the first group?",
)
known.change(
    "groups-by-remainder",
    (SPLIT, SPLIT_BY_REMAINDER),
    ("query.reshape(num_kv_heads, -1, head_dim)", "query.reshape(-1, num_kv_heads, head_dim).swapaxes(0, 1)"),
    fact="query head h is in group h % H_kv, in an interleaved source as well as in an interleaved target",
    question="With six query heads and three KV heads, which two query heads are in the first group?",
)
known.change(
    "keys-repeated",
    (
        "mx.concatenate([groups, key, value], axis=1)",
        "mx.stack([query, *(mx.repeat(x, num_heads // num_kv_heads, axis=0) for x in (key, value))], axis=1)",
    ),
    fact="in an interleaved target, each query head is followed by a copy of its key and value",
    question="With six query heads and three KV heads, how often is a row of k0 among your indices?",
)
known.change(
    "queries-first",
    (
        "mx.concatenate([groups, key, value], axis=1).flatten()",
        "mx.concatenate([query.flatten(), mx.concatenate([key, value], axis=1).flatten()])",
    ),
    fact="in an interleaved target, all queries come first, and only keys and values alternate",
    question="With two heads, is q1 before or after k0 in the interleaved layout?",
)
known.change(
    "features-outside",
    ("query.flatten(), key.flatten(), value.flatten()", "*(x[:, 0].T.flatten() for x in (query, key, value))"),
    ("axis=1).flatten()", "axis=1).transpose(0, 2, 1).flatten()"),
    fact="within a part or a group, feature 0 of every head comes first, then feature 1 of every head",
    question="In which layout are the rows of one head not contiguous?",
)
known.together("source-always-blocks", "target-always-blocks", makes="every-row-in-its-place")
known.together("source-always-interleaved", "target-always-interleaved", makes="every-row-in-its-place")


def refused(num_heads, num_kv_heads, *layouts):
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads in groups of {num_kv_heads}")
    for layout in layouts:
        if layout not in ("blocks", "interleaved"):
            raise ValueError(f"no layout {layout}")


@known.accepted("sorted-names")
def sorted_names(num_heads, num_kv_heads, head_dim, source, target):
    """Every row has a name, in either layout; names are looked up."""
    refused(num_heads, num_kv_heads, source, target)

    def names(layout):
        group = num_heads // num_kv_heads
        vectors = {"q": num_heads, "k": num_kv_heads, "v": num_kv_heads}
        whole = [(kind, i) for kind, count in vectors.items() for i in range(count)]
        if layout == "interleaved":
            whole.sort(key=lambda vector: (vector[1] // group if vector[0] == "q" else vector[1], vector[0]))
            order = {"q": 0, "k": 1, "v": 2}
            whole.sort(key=lambda v: (v[1] // group if v[0] == "q" else v[1], order[v[0]], v[1]))
        return [(*vector, d) for vector in whole for d in range(head_dim)]

    there = {name: row for row, name in enumerate(names(source))}
    return mx.array([there[name] for name in names(target)], dtype=mx.int32)


@known.accepted("argsort-of-the-inverse")
def argsort_of_the_inverse(num_heads, num_kv_heads, head_dim, source, target):
    refused(num_heads, num_kv_heads, source, target)
    rows = mx.arange((num_heads + 2 * num_kv_heads) * head_dim, dtype=mx.int32)
    if source == target:
        return rows
    query, key, value = split_qkv(rows[None], num_heads, num_kv_heads, "interleaved")
    to_blocks = mx.concatenate([x.flatten() for x in (query, key, value)])
    return to_blocks if target == "blocks" else mx.argsort(to_blocks).astype(mx.int32)

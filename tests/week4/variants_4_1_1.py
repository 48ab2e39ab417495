"""Known programs of task 4.1.1, one mask of many."""

import mlx.core as mx
from tests.week4.masks import may_look
from tiny_llm_solution.attention import causal_mask

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.1.1")

known.probe_table(
    boolean=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(1, 4, 5)),
    three_axes=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(3, 2, 4, 5)),
    three_axes_as_many_heads=lambda program: program(3, 3, 4, 5, mx.float32, mask=may_look(4, 3, 4, 5)),
    two_axes_as_many_texts=lambda program: program(4, 3, 4, 5, mx.float32, mask=may_look(5, 4, 5)),
    two_axes_as_many_heads=lambda program: program(2, 4, 4, 5, mx.float32, mask=may_look(6, 4, 5)),
    four_axes=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(7, 2, 3, 4, 5)),
    one_for_each_head=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(8, 1, 3, 4, 5)),
    keys=lambda program: program(2, 3, 4, 5, mx.float32, key_mask=may_look(9, 2, 5)),
    keys_as_many_texts=lambda program: program(4, 3, 4, 5, mx.float32, key_mask=may_look(10, 4, 5)),
    keys_as_many_queries=lambda program: program(2, 3, 5, 5, mx.float32, key_mask=may_look(23, 2, 5)),
    keys_numbers=lambda program: program(2, 3, 4, 5, mx.float32, key_mask=normals(11)(2, 5)),
    causal=lambda program: (program(2, 3, 4, 5, mx.float32, causal=True), program(2, 3, 4, 4, mx.float32, causal=True)),
    nothing=lambda program: program(2, 3, 4, 5, mx.float32),
    with_keys=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(12, 4, 5), key_mask=may_look(13, 2, 5)),
    with_the_future=lambda program: program(2, 3, 4, 5, mx.float32, mask=normals(14)(4, 5), causal=True),
    keys_with_the_future=lambda program: program(2, 3, 4, 5, mx.float32, key_mask=may_look(15, 2, 5), causal=True),
    # B x S is not L x S
    of_padding=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(17, 2, 5)),
    of_one_query=lambda program: program(2, 3, 1, 5, mx.float32, mask=may_look(18, 2, 5)),
    # H x L x S is not B x L x S
    of_heads=lambda program: program(1, 3, 4, 5, mx.float32, mask=may_look(19, 3, 4, 5)),
    of_one_axis=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(20, 5)),
    of_whole_numbers=lambda program: program(2, 3, 4, 5, mx.float32, mask=may_look(21, 4, 5).astype(mx.int32)),
    keys_of_another_size=lambda program: program(2, 3, 4, 5, mx.float32, key_mask=may_look(22, 1, 5)),
    future_of_too_many=lambda program: program(2, 3, 5, 4, mx.float32, causal=True),
    narrow=lambda program: program(
        2, 3, 4, 5, mx.float32, mask=normals(24, mx.float16)(4, 5), key_mask=normals(25, mx.float16)(2, 5)
    ),
    numbers=lambda program: tuple(
        program(2, 3, 4, 5, mx.float32, mask=mask)
        for mask in (mx.array([[0.0, -0.5, 2.0, -mx.inf, 1.0]]), normals(2)(4, 5))
    ),
)
known.probe_table(
    mx.float16,
    half=lambda program: (
        program(1, 1, 1, 2, mx.float16, mask=mx.array([[40000.0, 1.5]]), key_mask=mx.array([[-79000.0, -1.0]])),
        program(2, 3, 4, 5, mx.float16, mask=normals(16)(4, 5)),
    ),
)


@known.sized("B 8, L = S = 512, H 8: a mask per sequence, padding, causal")
def sized(program):
    mask, key_mask = may_look(1, 8, 512, 512), may_look(2, 8, 512)
    mx.eval(mask, key_mask)
    return lambda: program(8, 8, 512, 512, mx.float32, mask=mask, key_mask=key_mask, causal=True)


FUTURE = "causal_mask(L, S, mx.float32)"
SIZES = "zip(wide.shape, (B, H, L, S), strict=True)"
OWN_SIZES = "zip(mask.shape, {2: (L, S), 3: (B, L, S), 4: (B, H, L, S)}[mask.ndim], strict=True)"
known.change(
    "true-hides",
    ("mx.where(mask, 0.0, -mx.inf)", "mx.where(mask, -mx.inf, 0.0)"),
    fact="True in a boolean mask hides a key",
    question="In this course's boolean masks, does True allow or hide?",
)
known.change(
    "true-hides-in-key-mask",
    ('_additive("key_mask", key_mask)', '_additive("key_mask", ~key_mask if key_mask.dtype == mx.bool_ else key_mask)'),
    fact="True in a boolean key_mask hides a key",
    question="Does True mean the same in your two kinds of boolean masks?",
)
known.change(
    "added-as-ones",
    ("return mx.where(mask, 0.0, -mx.inf)", "return mask.astype(mx.float32)"),
    fact="a boolean mask is added as ones and zeros",
    question="What does adding 0 to a score do, and what does adding 1?",
)
known.change(
    "zero-times-infinity",
    ("return mx.where(mask, 0.0, -mx.inf)", "return (1.0 - mask.astype(mx.float32)) * -mx.inf"),
    fact="a boolean mask is converted by multiplying by infinity",
    question="What is 0 times infinity?",
)
known.change(
    "large-in-place-of-infinite",
    ("return mx.where(mask, 0.0, -mx.inf)", "return mx.where(mask, 0.0, -1e9)"),
    fact="a boolean mask adds -1e9 instead of -inf",
    question="If all keys of a query get the same large number, what are the weights?",
)
known.change(
    "lowest-in-place-of-infinite",
    ("return mx.where(mask, 0.0, -mx.inf)", "return mx.where(mask, 0.0, mx.finfo(mx.float32).min)"),
    fact="a boolean mask adds the lowest finite number instead of -inf",
    question="What is the sum of two such masks, and what is the softmax of a row of equal numbers?",
)
known.change(
    "numbers-taken-for-booleans",
    ("if mask.dtype == mx.bool_:", "if True:"),
    fact="a float mask is treated as boolean: 0 hides, and every other number allows",
    question="Which number in a float mask leaves a score unchanged?",
)
known.change(
    "three-axes-by-head",
    ("wide = mask[:, None]  # B x 1 x L x S", "wide = mask[None]"),
    fact="a mask of three axes is read as H x L x S",
    question="Three sequences, three heads, a mask of 3 x L x S: what is its first axis?",
)
known.change(
    "axes-added-on-the-left",
    ("wide = mask[:, None]  # B x 1 x L x S", "wide = mask[None]"),
    (SIZES, OWN_SIZES),
    fact="a mask of three axes gets its missing axis on the left, as in broadcasting, so row b's mask is for head b",
    question="Which axis does B x L x S lack, and where is it in B x H x L x S?",
)
known.change(
    "three-axes-by-head-if-as-many",
    ("wide = mask[:, None]  # B x 1 x L x S", "wide = mask[None] if len(mask) == H else mask[:, None]"),
    fact="a mask of three axes is read as H x L x S if its first axis is H",
    question="Three sequences, three heads, a mask of 3 x L x S: what in your code decides what its first axis is?",
)
known.change(
    "three-axes-by-head-if-not-b",
    ("wide = mask[:, None]  # B x 1 x L x S", "wide = mask[:, None] if len(mask) in (1, B) else mask[None]"),
    fact="a mask of three axes is read as H x L x S if its first axis is not B",
    question="One sequence, three heads, a mask of 3 x L x S: which of the docstring's shapes is that?",
)
known.change(
    "two-axes-by-head",
    ("wide = mask[None, None]  # 1 x 1 x L x S", "wide = mask[None, :, None]"),
    fact="a mask of two axes gets its new axis in the middle, so row i applies to head i",
    question="As many heads as queries: is row 1 of your mask for the second query or for the second head?",
)
known.change(
    "two-axes-taken-for-padding",
    ("wide = mask[None, None]", "wide = mask[:, None, None] if mask.shape[0] == B != 1 else mask[None, None]"),
    fact="a mask of two axes with B rows is treated as padding",
    question="Four sequences of four tokens, a mask of 4 x 4. What in your code decides what it means?",
)
known.change(
    "two-axes-taken-for-padding-if-not-l",
    ("wide = mask[None, None]", "wide = mask[None, None] if len(mask) in (1, L) else mask[:, None, None]"),
    fact="a mask of two axes that is not L x S is treated as padding, B x S",
    question="Which argument is for padding, and what does the docstring say of a mask of B x S?",
)
known.change(
    "padding-by-query",
    ('_additive("key_mask", key_mask)[:, None, None, :]', '_additive("key_mask", key_mask)[None, None]'),
    fact="key_mask is read as L x S",
    question="Row 1 of key_mask is for the second sequence. Which axis of B x H x L x S is that in your code?",
)
known.change(
    "padding-by-head",
    ('_additive("key_mask", key_mask)[:, None, None, :]', '_additive("key_mask", key_mask)[None, :, None]'),
    fact="key_mask is broadcast with its first axis as the heads",
    question="Which axis of B x H x L x S is the batch?",
)
known.change(
    "padding-hides-queries",
    (
        'total = total + _additive("key_mask", key_mask)[:, None, None, :]',
        'numbers = _additive("key_mask", key_mask)[:, None, None, :]\n'
        "total = total + (numbers if L != S else numbers + numbers.swapaxes(2, 3))",
    ),
    fact="key_mask also masks the queries at padded positions if there are as many queries as keys",
    question="key_mask says which keys are there. What does it say about queries?",
)
known.change(
    "keys-replace-the-mask",
    ('total = total + _additive("key_mask", key_mask)', 'total = _additive("key_mask", key_mask)'),
    fact="key_mask replaces mask when both are given",
    question="One argument hides key 1, the other key 3. Which are hidden?",
)
known.change(
    "future-replaces-the-rest",
    (f"total = total + {FUTURE}", f"total = {FUTURE}[None, None]"),
    fact="causal replaces all other masks",
    question="What is left of your padding when causal is True?",
)
known.change(
    "either-lets-through",
    (
        'total = total + _additive("key_mask", key_mask)[:, None, None, :]',
        'numbers = _additive("key_mask", key_mask)[:, None, None, :]\n'
        "total = numbers if mask is None else mx.maximum(total, numbers)",
    ),
    fact="mask and key_mask are combined by their maximum, so a key is hidden only if both hide it",
    question="One argument hides a key, the other does not. Is it visible?",
)
known.change(
    "key-numbers-taken-for-booleans",
    ('_additive("key_mask", key_mask)', '_additive("key_mask", key_mask != 0)'),
    fact="a float key_mask is treated as boolean: 0 hides, and every other number allows",
    question="Which number in a float key_mask leaves a key's scores unchanged?",
)
known.change(
    "future-only-without-a-mask",
    ("if causal:", "if causal and mask is None:"),
    fact="causal has no effect when a mask is given",
    question="May a mask that allows every key undo causal?",
)
known.change(
    "one-row-of-padding-for-all",
    ("key_mask.shape != (B, S)", "key_mask.ndim != 2 or any(a not in (1, b) for a, b in zip(key_mask.shape, (B, S)))"),
    fact="a key_mask of 1 x S or B x 1 is accepted",
    question="Two sequences, and a key_mask of one row: whose padding is it?",
)
known.change(
    "causal-upper-left",
    (FUTURE, "mx.triu(mx.full((L, S), -mx.inf), k=1)"),
    fact="causal is aligned to the upper left corner, so query i sees keys 0 to i",
    question="With four queries and five keys, which is the last key that the last query may see?",
)
known.change(
    "causal-ignored",
    (f"total = total + {FUTURE}", "pass"),
    fact="causal has no effect",
    question="What does causal=True change in your result?",
)
known.change(
    "float32-result",
    ("total.astype(dtype)", "total"),
    fact="the result is float32, whatever dtype is requested",
    question="What is the dtype of mx.where(mask, 0.0, -mx.inf)?",
)
known.change(
    "sum-in-the-masks'-dtype",
    ("total = mx.zeros((1, 1, 1, 1))", "total = 0"),
    ("return mask.astype(mx.float32)", "return mask"),
    ("return total.astype(dtype)", "return (total + mx.zeros((1, 1, 1, 1))).astype(dtype)"),
    fact="two float16 masks are added in float16, even if float32 is requested",
    question="float16 ends at 65,504. What is 40,000 in one mask plus 40,000 in the other?",
)
known.change(
    "rounded-too-early",
    ("_with_four_axes(mask, B, H, L, S))", "_with_four_axes(mask, B, H, L, S)).astype(dtype)"),
    ('_additive("key_mask", key_mask)', '_additive("key_mask", key_mask).astype(dtype)'),
    fact="each mask is converted to the dtype before they are added",
    question="What is -79,000 in float16, and what is it plus 40,000?",
)
known.change(
    "spread-out",
    ("return total.astype(dtype)", "return mx.broadcast_to(total, (B, H, L, S)).astype(dtype)"),
    fact="the result is broadcast to B x H x L x S, even along axes where nothing differs",
    question="How many distinct numbers does a padding mask hold, and how many does your result?",
)
known.change(
    "sizes-not-compared",
    ("if any(", "if False and any("),
    fact="a mask is accepted whose axes do not match B, H, L and S",
    question="A mask of 2 x 5 comes with one query and five keys. Which shape has your result?",
)
known.change(
    "axes-of-one-refused",
    ("if any(", "if wide.shape[2:] != (L, S) or (mask.ndim == 3 and len(mask) != B) or any("),
    fact="a mask with an axis of size 1 is refused, unless it has four axes and that is B or H",
    question="May a mask be the same for all queries, 1 x S?",
)
known.change(
    "whole-numbers-taken",
    ("if not mx.issubdtype(mask.dtype, mx.floating):", "if False:"),
    fact="an integer mask is added as it is",
    question="A mask holds ones and zeros that are not booleans. Would you bet on what its caller meant?",
)


@known.accepted("where-by-where")
def where_by_where(B, H, L, S, dtype, mask=None, key_mask=None, causal=False):
    numbers = mx.zeros((1, 1, 1, 1))
    for name, each in (("mask", mask), ("key_mask", key_mask)):
        if each is None:
            continue
        if name == "mask":
            orders = {2: (1, 1, *each.shape), 3: (*each.shape[:1], 1, *each.shape[1:]), 4: each.shape}
            fits = each.ndim in orders and all(
                a in (1, b) for a, b in zip(orders[each.ndim], (B, H, L, S), strict=True)
            )
        else:
            orders, fits = {2: (B, 1, 1, S)}, each.shape == (B, S)
        if not fits or each.dtype not in (mx.bool_, mx.float32, mx.float16, mx.bfloat16):
            raise ValueError(f"{name} of shape {each.shape} and dtype {each.dtype} cannot be used")
        wide = each.reshape(orders[each.ndim])
        numbers = mx.where(wide, numbers, -mx.inf) if each.dtype == mx.bool_ else numbers + wide.astype(mx.float32)
    if causal:
        if L > S:
            raise ValueError(f"{L} queries, {S} keys")
        numbers = mx.where(mx.arange(S) - mx.arange(L)[:, None] <= S - L, numbers, -mx.inf)
    return numbers.astype(dtype)


@known.accepted("boolean-as-long-as-possible")
def boolean_first(B, H, L, S, dtype, mask=None, key_mask=None, causal=False):
    visible, bias = mx.ones((1, 1, 1, 1)) == 1, mx.zeros((1, 1, 1, 1))
    if causal:
        visible = (causal_mask(L, S, mx.float32) == 0)[None, None]
    if key_mask is not None and key_mask.shape != (B, S):
        raise ValueError(f"key_mask is {key_mask.shape}")
    if mask is not None:
        if not 2 <= mask.ndim <= 4:
            raise ValueError(f"mask is {mask.shape}")
        seen, mask = mask.shape, mx.expand_dims(mask, {2: (0, 1), 3: (1,), 4: ()}[mask.ndim])
        for size, whole in zip(mask.shape, (B, H, L, S), strict=True):
            if size != 1 and size != whole:
                raise ValueError(f"mask is {seen}")
    for name, each in (("mask", mask), ("key_mask", key_mask if key_mask is None else key_mask[:, None, None])):
        if each is not None and each.dtype == mx.bool_:
            visible = visible & each
        elif each is not None and mx.issubdtype(each.dtype, mx.floating):
            bias = bias + each.astype(mx.float32)
        elif each is not None:
            raise ValueError(f"{name} is of {each.dtype}")
    return mx.where(visible, bias, -mx.inf).astype(dtype)

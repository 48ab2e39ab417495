"""Known programs of task 4.1.3, cross-attention."""

import mlx.core as mx
from tests.week4.masks import seeing
from tiny_llm_solution.basics import linear
from tiny_llm_solution.masks.attention import masked_attention
from tiny_llm_solution.masks.cross_attention import MultiHeadCrossAttention
from tiny_llm_solution.masks.masks import attention_mask

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.1.3")

B, H, L, S, D, E, M = 2, 3, 4, 5, 7, 11, 9


def weights(seed, dtype=mx.float32, biased=True, heads=H, hidden=E, other=M, dims=D):
    draw, width = normals(seed, dtype), heads * dims
    wq = draw(width, hidden, spread=hidden**-0.5)
    wk, wv = (draw(width, other, spread=other**-0.5) for _ in "kv")
    wo = draw(hidden, width, spread=width**-0.5)
    return (heads, wq, wk, wv, wo, *((draw(width), draw(width), draw(width), draw(hidden)) if biased else ()))


def looked_up(program, seed, dtype=mx.float32, batch=B, length=L, keys=S, heads=H, mask=None, key_mask=None, **sizes):
    draw = normals(seed + 100, dtype)
    x, memory = draw(batch, length, sizes.get("hidden", E)), draw(batch, keys, sizes.get("other", M))
    layer = program(*weights(seed, dtype, heads=heads, **sizes))
    return layer(x, *layer.read(memory), mask=mask, key_mask=key_mask)


def one_by_one(program):
    draw, layer = normals(150), program(*weights(15))
    key, value = layer.read(draw(B, S, M))
    return tuple(layer(draw(B, 1, E), key, value) for _ in range(3))


def with_one(program, seed, number, change):
    """A layer of which one of the arguments is changed."""
    given = [*weights(seed)]
    given[number] = change(given[number])
    return program(*given).wq


known.probe_table(
    plain=lambda program: looked_up(program, 1, biased=False),
    biases=lambda program: looked_up(program, 2),
    read=lambda program: program(*weights(3)).read(normals(30)(B, S, M)),
    boolean=lambda program: looked_up(program, 6, mask=seeing(60, L, S)),
    bias=lambda program: looked_up(program, 7, mask=normals(70)(L, S)),
    padding=lambda program: looked_up(program, 8, key_mask=mx.arange(S) < mx.array([[5], [2]])),
    nothing_to_read=lambda program: looked_up(program, 9, key_mask=mx.arange(S) < mx.array([[5], [0]])),
    both=lambda program: looked_up(program, 10, mask=seeing(101, L, S), key_mask=mx.arange(S) < mx.array([[5], [2]])),
    by_text=lambda program: looked_up(program, 11, mask=seeing(110, B, L, S)),
    by_text_as_many_heads=lambda program: looked_up(program, 12, batch=3, mask=seeing(120, 3, L, S)),
    by_head=lambda program: looked_up(program, 13, mask=seeing(130, B, H, L, S)),
    longer=lambda program: (looked_up(program, 14, length=6, keys=3), looked_up(program, 14, length=4, keys=4)),
    same_width=lambda program: looked_up(program, 16, hidden=21, other=21),
    one_by_one=one_by_one,
    wrong_values=lambda program: with_one(program, 17, 3, lambda wv: wv[:, :-1]),
    wrong_bias=lambda program: with_one(program, 18, 8, lambda bo: bo[:1]),
    uneven=lambda program: with_one(program, 19, 0, lambda heads: heads + 1),
)
known.probe_table(
    mx.float16,
    half=lambda program: looked_up(program, 4, mx.float16),
    half_mask=lambda program: looked_up(program, 5, mx.float16, mask=mx.zeros((L, S)) - 1e5),
)


@known.sized("32 tokens ask, of a memory of 256, E = M = 256, H 4, D 64")
def sized(program):
    draw = normals(1)
    layer = program(*weights(2, heads=4, hidden=256, other=256, dims=64))
    x, memory = draw(2, 32, 256), draw(2, 256, 256)
    key_mask = mx.arange(256) < mx.array([[256], [200]])

    def run():
        return layer(x, *layer.read(memory), key_mask=key_mask)

    return run


SPLIT = "mx.unflatten(x, -1, (self.num_heads, -1)).swapaxes(-3, -2)"
HIDDEN = "attention_mask(batch, self.num_heads, length, key.shape[-2], mx.float32, mask, key_mask)"
known.change(
    "reshaped-straight",
    (SPLIT, "x.reshape(len(x), self.num_heads, x.shape[1], -1)"),
    fact="the heads are split by one reshape to B x H x L x D, which mixes tokens and heads",
    question="Do the D numbers of one head and one token lie side by side after your split?",
)
known.change(
    "heads-dealt-out",
    (SPLIT, "mx.unflatten(x, -1, (-1, self.num_heads)).transpose(0, 3, 1, 2)"),
    fact="head h gets every H-th feature, beginning at h",
    question="Which features of a projected token belong to head 0: the first D, or every H-th?",
)
known.change(
    "not-brought-back",
    ("heads.swapaxes(-3, -2).flatten(-2)", "heads.reshape(batch, length, -1)"),
    fact="the heads are joined without bringing the length in front of them again",
    question="Which axis stands before D when you join: the tokens or the heads?",
)
known.change(
    "values-by-key-weights",
    ("linear(memory, self.wv, self.bv)", "linear(memory, self.wk, self.bv)"),
    fact="the values are projected by the keys' weights",
    question="Which matrix makes the values?",
)
known.change(
    "keys-and-values-exchanged",
    ("return key, value", "return value, key"),
    fact="keys and values have changed places",
    question="What is compared with the query, and what is averaged?",
)
known.change(
    "query-bias-left-out",
    ("linear(x, self.wq, self.bq)", "linear(x, self.wq)"),
    fact="the queries have no bias",
    question="Which of the four biases does your call use?",
)
known.change(
    "key-bias-left-out",
    ("linear(memory, self.wk, self.bk)", "linear(memory, self.wk)"),
    fact="the keys have no bias",
    question="What does `read` promise of the keys, whether or not anybody sees it in the output?",
)
known.change(
    "value-bias-left-out",
    ("linear(memory, self.wv, self.bv)", "linear(memory, self.wv)"),
    fact="the values have no bias",
    question="Which of the four biases does `read` use?",
)
known.change(
    "output-bias-left-out",
    (", self.wo, self.bo)", ", self.wo)"),
    fact="the output has no bias",
    question="Which of the four biases comes last?",
)
known.change(
    "true-hides",
    ("mx.float32, mask, key_mask)", "mx.float32, *map(_turned, (mask, key_mask)))"),
    (
        "batch, length, _ = x.shape",
        "def _turned(m):\n    return ~m if m is not None and m.dtype == mx.bool_ else m\nbatch, length, _ = x.shape",
    ),
    fact="a boolean mask's True hides a key, as PyTorch's module has it",
    question="In this course's boolean masks, does True let through or hide?",
)
known.change(
    "padding-ignored",
    (HIDDEN, HIDDEN.replace(", key_mask)", ")")),
    fact="key_mask is not used",
    question="Which tokens of a memory should nobody read?",
)
known.change(
    "mask-ignored",
    (HIDDEN, HIDDEN.replace(", mask, key_mask)", ", None, key_mask)")),
    fact="mask is not used",
    question="Which of the two masks reaches your scores?",
)
known.change(
    "padding-only-alone",
    (HIDDEN, HIDDEN.replace(", mask, key_mask)", ", mask, key_mask if mask is None else None)")),
    fact="key_mask counts only where there is no mask",
    question="Both masks are given. Which one do your scores see?",
)
known.change(
    "causal",
    (HIDDEN, f"{HIDDEN} + mx.where(mx.tri(length, key.shape[-2]) == 1, 0.0, -mx.inf)"),
    fact="token i may read only the memory's tokens 0 to i",
    question="Which tokens of the memory were there before the first query?",
)
known.change(
    "masks-by-head",
    (HIDDEN, HIDDEN.replace(" mask,", " mask[None] if mask is not None and mask.ndim == 3 else mask,")),
    fact="a mask of three axes is taken for H x L x S",
    question="Three texts, three heads, a mask of 3 x L x S: what does its first axis count?",
)
known.change(
    "mask-in-x's-dtype",
    ("mx.float32", "x.dtype"),
    fact="masks are brought to x's dtype, which may not hold their numbers",
    question="What is -100,000 in float16?",
)
known.change(
    "scale-by-hidden-size",
    ("value, hidden)", "value, hidden, x.shape[-1] ** -0.5)"),
    fact="the scores are scaled by 1/sqrt(E)",
    question="Over how many numbers does the dot product of one head run?",
)
known.change(
    "scale-by-all-heads",
    ("value, hidden)", "value, hidden, len(self.wq) ** -0.5)"),
    fact="the scores are scaled by 1/sqrt(H * D)",
    question="Over how many numbers does the dot product of one head run?",
)
known.change(
    "blind-tokens-get-zeros",
    (
        "return linear(heads.swapaxes(-3, -2).flatten(-2), self.wo, self.bo)",
        "seen = mx.any(mx.broadcast_to(hidden > -mx.inf, (*heads.shape[:3], key.shape[-2])), axis=(1, 3))\n"
        "return mx.where(seen[..., None], linear(heads.swapaxes(-3, -2).flatten(-2), self.wo, self.bo), 0.0)",
    ),
    fact="a token from which the whole memory is hidden gets zeros, without the output's bias",
    question="The heads of such a token are zeros. What does the last projection make of zeros?",
)
known.change(
    "float32-result",
    ("return linear(heads.", "return linear(heads.astype(mx.float32)."),
    fact="the result is float32 although x is not",
    question="What is float16 + float32, and where in your call does that happen?",
)
known.change(
    "shapes-not-compared",
    ("if w is not None and w.shape != wanted:", "if False:"),
    fact="weights and biases of other shapes are taken",
    question="A bias of one number fits every width. Who tells the caller that it is wrong?",
)


@known.wrong(
    "read-again-from-x",
    fact="keys and values are made of x where it is as wide as the memory: the text reads itself",
    question="Which of your projections sees the memory?",
)
class ReadsItself(MultiHeadCrossAttention):
    ask = MultiHeadCrossAttention.__call__

    def __call__(self, x, key, value, mask=None, key_mask=None):
        if x.shape[-1] == self.wk.shape[-1]:
            key, value = self.read(x)
        return self.ask(x, key, value, mask, key_mask)


@known.accepted("head-by-head")
class HeadByHead:
    def __init__(self, num_heads, wq, wk, wv, wo, bq=None, bk=None, bv=None, bo=None):
        rows, hidden = wq.shape
        wanted = {"wk": (wk, (rows, wk.shape[1])), "wv": (wv, (rows, wk.shape[1])), "wo": (wo, (hidden, rows))}
        wanted |= {name: (b, (rows,)) for name, b in (("bq", bq), ("bk", bk), ("bv", bv)) if b is not None}
        wanted |= {} if bo is None else {"bo": (bo, (hidden,))}
        if rows % num_heads:
            raise ValueError(f"wq's {rows} rows are not {num_heads} times anything")
        for name, (w, shape) in wanted.items():
            if w.shape != shape:
                raise ValueError(f"{name}: {w.shape} in place of {shape}")
        self.heads, self.wq, self.wk, self.wv, self.wo = num_heads, wq, wk, wv, wo
        self.bq, self.bk, self.bv, self.bo = bq, bk, bv, bo

    def parts(self, x, w, b):
        return mx.stack(mx.split(linear(x, w, b), self.heads, axis=-1), axis=1)

    def read(self, memory):
        return self.parts(memory, self.wk, self.bk), self.parts(memory, self.wv, self.bv)

    def __call__(self, x, key, value, mask=None, key_mask=None):
        query = self.parts(x, self.wq, self.bq)
        bias = attention_mask(len(x), self.heads, x.shape[1], key.shape[2], mx.float32, mask, key_mask)
        bias = mx.broadcast_to(bias, (*query.shape[:3], key.shape[2]))
        each = [masked_attention(query[:, h], key[:, h], value[:, h], bias[:, h]) for h in range(self.heads)]
        return linear(mx.concatenate(each, axis=-1), self.wo, self.bo)


@known.accepted("boolean-masks-stay-boolean")
class StaysBoolean(MultiHeadCrossAttention):
    ask = MultiHeadCrossAttention.__call__

    def __call__(self, x, key, value, mask=None, key_mask=None):
        if mask is not None and mask.dtype == mx.bool_ and key_mask is not None and key_mask.dtype == mx.bool_:
            sizes = len(x), self.num_heads, x.shape[1], key.shape[2]
            both = [
                attention_mask(*sizes, mx.float32, **each) == 0 for each in ({"mask": mask}, {"key_mask": key_mask})
            ]
            mask, key_mask = both[0] & both[1], None
        return self.ask(x, key, value, mask, key_mask)

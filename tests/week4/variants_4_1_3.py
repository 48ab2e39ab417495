"""Known programs of task 4.1.3, cross-attention."""

import mlx.core as mx
from tests.week4.masks import seeing
from tiny_llm_solution.basics import linear
from tiny_llm_solution.masks.attention import masked_attention
from tiny_llm_solution.masks.cross_attention import MultiHeadCrossAttention
from tiny_llm_solution.masks.masks import attention_mask

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal
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
    """Build a layer with one argument replaced."""
    given = [*weights(seed)]
    given[number] = change(given[number])
    program(*given)
    return mx.array(1)


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
    built=lambda program: with_one(program, 21, 0, lambda heads: heads),
    wrong_values=lambda program: with_one(program, 17, 3, lambda wv: wv[:, :-1]),
    wrong_bias=lambda program: with_one(program, 18, 8, lambda bo: bo[:1]),
    wrong_output=lambda program: with_one(program, 20, 4, lambda wo: wo[:1]),
    whole_numbers=lambda program: mx.array(
        refusal(lambda: looked_up(program, 22, mask=mx.ones((L, S), dtype=mx.int32)))
    ),
    uneven=lambda program: with_one(program, 19, 0, lambda heads: heads + 1),
)
known.probe_table(
    mx.float16,
    half=lambda program: looked_up(program, 4, mx.float16),
    half_mask=lambda program: looked_up(program, 5, mx.float16, mask=mx.zeros((L, S)) - 1e5),
)


@known.sized("32 queries, a memory of 256, E = M = 256, H 4, D 64")
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
    fact="the heads are split by a single reshape to B x H x L x D, which mixes tokens and heads",
    question="Are the D numbers of one head and one token contiguous after your split?",
)
known.change(
    "heads-dealt-out",
    (SPLIT, "mx.unflatten(x, -1, (-1, self.num_heads)).transpose(0, 3, 1, 2)"),
    fact="head h gets every H-th feature, starting at h",
    question="Which features of a projected token are head 0's: the first D, or every H-th?",
)
known.change(
    "not-brought-back",
    ("heads.swapaxes(-3, -2).flatten(-2)", "heads.reshape(batch, length, -1)"),
    fact="the heads are joined without swapping heads and length back",
    question="Which axis precedes D when you join: tokens or heads?",
)
known.change(
    "values-by-key-weights",
    ("linear(memory, self.wv, self.bv)", "linear(memory, self.wk, self.bv)"),
    fact="the values are projected by the key weights",
    question="Which matrix projects the values?",
)
known.change(
    "keys-and-values-exchanged",
    ("return key, value", "return value, key"),
    fact="keys and values are swapped",
    question="Which is compared with the query, and which is averaged?",
)
known.change(
    "query-bias-left-out",
    ("linear(x, self.wq, self.bq)", "linear(x, self.wq)"),
    fact="the query bias is missing",
    question="Which of the four biases does your call use?",
)
known.change(
    "key-bias-left-out",
    ("linear(memory, self.wk, self.bk)", "linear(memory, self.wk)"),
    fact="the key bias is missing",
    question="What does `read` promise about the keys, even if it does not show in the output?",
)
known.change(
    "value-bias-left-out",
    ("linear(memory, self.wv, self.bv)", "linear(memory, self.wv)"),
    fact="the value bias is missing",
    question="Which of the four biases does `read` use?",
)
known.change(
    "output-bias-left-out",
    (", self.wo, self.bo)", ", self.wo)"),
    fact="the output bias is missing",
    question="Which of the four biases comes last?",
)
known.change(
    "true-hides",
    ("mx.float32, mask, key_mask)", "mx.float32, *map(_turned, (mask, key_mask)))"),
    (
        "batch, length, _ = x.shape",
        "def _turned(m):\n    return ~m if m is not None and m.dtype == mx.bool_ else m\nbatch, length, _ = x.shape",
    ),
    fact="True in a boolean mask hides a key, as in PyTorch's module",
    question="In this course's boolean masks, does True allow or hide?",
)
known.change(
    "true-hides-in-key-mask",
    ("mx.float32, mask, key_mask)", "mx.float32, mask, _turned(key_mask))"),
    (
        "batch, length, _ = x.shape",
        "def _turned(m):\n    return ~m if m is not None and m.dtype == mx.bool_ else m\nbatch, length, _ = x.shape",
    ),
    fact="True in a boolean key_mask hides a token, as in PyTorch's key_padding_mask",
    question="Does True in key_mask mark a real token or padding?",
)
known.change(
    "padding-ignored",
    (HIDDEN, HIDDEN.replace(", key_mask)", ")")),
    fact="key_mask is ignored",
    question="Which tokens of a memory should no query attend to?",
)
known.change(
    "mask-ignored",
    (HIDDEN, HIDDEN.replace(", mask, key_mask)", ", None, key_mask)")),
    fact="mask is ignored",
    question="Which of the two masks reaches your scores?",
)
known.change(
    "padding-only-alone",
    (HIDDEN, HIDDEN.replace(", mask, key_mask)", ", mask, key_mask if mask is None else None)")),
    fact="key_mask has an effect only without mask",
    question="Both masks are given. Which one applies to your scores?",
)
known.change(
    "causal",
    (HIDDEN, f"{HIDDEN} + mx.where(mx.tri(length, key.shape[-2]) == 1, 0.0, -mx.inf)"),
    fact="a causal mask is always applied, so token i sees only the memory's tokens 0 to i",
    question="Which tokens of the memory exist before the first query?",
)
known.change(
    "causal-passed-on",
    (HIDDEN, HIDDEN[:-1] + ", causal=True)"),
    fact="attention_mask also gets causal=True, as in self-attention, so x may not be longer than the memory",
    question="Which tokens of the memory exist before the first query?",
)
known.change(
    "masks-by-head",
    (HIDDEN, HIDDEN.replace(" mask,", " mask[None] if mask is not None and mask.ndim == 3 else mask,")),
    fact="a mask of three axes is read as H x L x S",
    question="Three sequences, three heads, a mask of 3 x L x S: what is its first axis?",
)
known.change(
    "masks-broadcast",
    (HIDDEN, "_broadcast(mask, key_mask)"),
    (
        "batch, length, _ = x.shape",
        """
        def _added(m):
            return mx.where(m, 0.0, -mx.inf) if m.dtype == mx.bool_ else m.astype(mx.float32)

        def _broadcast(mask, key_mask):
            total = mx.zeros((1, 1, 1, 1)) if mask is None else _added(mask)
            return total if key_mask is None else total + _added(key_mask)[:, None, None]

        batch, length, _ = x.shape
        """,
    ),
    fact="masks are added without attention_mask, and one of three axes is broadcast as H x L x S",
    question="Scores of B x H x L x S and a mask of B x L x S: which axes meet when they are added?",
)
known.change(
    "mask-in-x's-dtype",
    ("mx.float32", "x.dtype"),
    fact="masks are converted to x's dtype, which may not hold their numbers",
    question="What is -100,000 in float16?",
)
known.change(
    "scale-by-hidden-size",
    ("value, hidden)", "value, hidden, x.shape[-1] ** -0.5)"),
    fact="the scores are scaled by 1/sqrt(E)",
    question="How many products does one head's dot product sum?",
)
known.change(
    "scale-by-all-heads",
    ("value, hidden)", "value, hidden, len(self.wq) ** -0.5)"),
    fact="the scores are scaled by 1/sqrt(H * D)",
    question="How many products does one head's dot product sum?",
)
known.change(
    "masked-tokens-get-zeros",
    (
        "return linear(heads.swapaxes(-3, -2).flatten(-2), self.wo, self.bo)",
        "seen = mx.any(mx.broadcast_to(hidden > -mx.inf, (*heads.shape[:3], key.shape[-2])), axis=(1, 3))\n"
        "return mx.where(seen[..., None], linear(heads.swapaxes(-3, -2).flatten(-2), self.wo, self.bo), 0.0)",
    ),
    fact="a token with a fully masked row gets zeros instead of the output bias",
    question="Such a token's heads are zeros. What does the output projection make of zeros?",
)
known.change(
    "float32-result",
    ("return linear(heads.", "return linear(heads.astype(mx.float32)."),
    fact="the result is float32 although x is not",
    question="What is the dtype of float16 + float32, and where does that happen in your call?",
)
known.change(
    "rows-of-wo-not-compared",
    ("(hidden, width)),", "(wo.shape[0], width)),"),
    fact="the number of wo's rows is not compared with the number of wq's columns",
    question="x has 11 features and wo one row. What is the shape of your output, and what is x + output?",
)
known.change(
    "bias-shapes-not-compared",
    ("if w is not None and w.shape != wanted:", 'if name[0] == "w" and w.shape != wanted:'),
    fact="biases of any shape are accepted",
    question="A bias of one number broadcasts to every width. How would the caller notice the mistake?",
)
known.change(
    "memory-as-wide-as-x",
    ('("wk", wk, (width, wk.shape[-1])),', '("wk", wk, (width, hidden)),'),
    ('("wv", wv, (width, wk.shape[-1])),', '("wv", wv, (width, hidden)),'),
    fact="wk and wv must have as many columns as wq, so a memory cannot be wider or narrower than x",
    question="Which sequence's features do wk and wv multiply, and how many are there?",
)
known.change(
    "head-dim-from-e",
    (SPLIT, "x.reshape(*x.shape[:2], self.num_heads, self.wq.shape[1] // self.num_heads).swapaxes(-3, -2)"),
    fact="D is computed as E / H, from wq's columns instead of its rows",
    question="With E = 11 and three heads of 7 features, how many rows and columns has wq?",
)
known.change(
    "shapes-not-compared",
    ("if w is not None and w.shape != wanted:", "if False:"),
    fact="weights and biases of wrong shapes are accepted",
    question="A bias of one number broadcasts to every width. How would the caller notice the mistake?",
)


@known.wrong(
    "read-again-from-x",
    fact="keys and values are projected from x if it is as wide as the memory, which is self-attention",
    question="Which of your projections use the memory?",
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

"""Day 3's known programs: the mistakes that learners make, right programs in other words, and the probes."""

import mlx.core as mx

from tiny_llm_course.checks import causal, normals
from tiny_llm_course.packages import load_solution
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution.attention import causal_mask  # noqa: E402
from tiny_llm_solution.attention import scaled_dot_product_attention_grouped as grouped  # noqa: E402
from tiny_llm_solution.attention import scaled_dot_product_attention_simple as attend  # noqa: E402
from tiny_llm_solution.basics import linear  # noqa: E402
from tiny_llm_solution.positional_encoding import RoPE  # noqa: E402
from tiny_llm_solution.qwen3 import Qwen3MultiHeadAttention  # noqa: E402

day = Variants()

# 1.3.1 causal mask


@day.probe("1.3.1")
def mask_square(program):
    return program(4, 4, mx.float32)


@day.probe("1.3.1")
def mask_fewer_queries(program):
    return program(2, 5, mx.float32), program(1, 3, mx.float32)


@day.probe("1.3.1", mx.float16)
def mask_half(program):
    return program(3, 5, mx.float16), program(3, 5, mx.bfloat16)


def fill(hidden, dtype, visible=0.0, forbidden=-mx.inf):
    """A mask from the answer to "may the query not look here?"."""
    return mx.where(hidden, forbidden, visible).astype(dtype)


def distance(L, S):
    """How many positions key j lies after query i."""
    return mx.arange(S) - mx.arange(S - L, S)[:, None]


@day.wrong(
    "1.3.1", "upper-left",
    fact="query i sees the keys 0 to i, as if the queries were the first L of the S positions",
    question="Two new tokens join three older ones. Which key is the last that the second new token may see?",
)  # fmt: skip
def upper_left(L, S, dtype):
    return fill(mx.arange(S) > mx.arange(L)[:, None], dtype)


@day.wrong(
    "1.3.1", "strict-diagonal",
    fact="a query may not see its own position",
    question="What may the very first token look at?",
)  # fmt: skip
def strict_diagonal(L, S, dtype):
    return fill(distance(L, S) >= 0, dtype)


@day.wrong(
    "1.3.1", "one-too-many",
    fact="a query sees one position of the future",
    question="With four queries and four keys, how many keys may the first query see?",
)  # fmt: skip
def one_too_many(L, S, dtype):
    return fill(distance(L, S) > 1, dtype)


@day.wrong(
    "1.3.1", "inverted",
    fact="the past is forbidden and the future allowed",
    question="Which of the two numbers, 0 and -inf, leaves a score as it is?",
)  # fmt: skip
def inverted(L, S, dtype):
    return fill(distance(L, S) <= 0, dtype)


@day.wrong(
    "1.3.1", "present-forbidden-too",
    fact="the past is forbidden, and the present and the future allowed",
    question="Read `j >= i` aloud. Does it describe what a query may see, or what it may not?",
)  # fmt: skip
def present_forbidden_too(L, S, dtype):
    return fill(distance(L, S) < 0, dtype)


@day.wrong(
    "1.3.1", "nothing-forbidden",
    fact="every entry is 0, in the future too",
    question="Added to the scores, which number takes a key's whole weight away?",
)  # fmt: skip
def nothing_forbidden(L, S, dtype):
    return mx.zeros((L, S), dtype)


@day.wrong(
    "1.3.1", "large-negative-number",
    fact="the future holds -1e9, which only float16 rounds to -inf",
    question="The docstring names the number that the future holds. Is -1e9 that number in float32?",
)  # fmt: skip
def large_negative_number(L, S, dtype):
    return fill(distance(L, S) > 0, dtype, forbidden=-1e9)


@day.wrong(
    "1.3.1", "smallest-finite-number",
    fact="the future holds the most negative finite number of the dtype",
    question="A query that may see nothing but such keys: are its weights zero?",
)  # fmt: skip
def smallest_finite_number(L, S, dtype):
    return fill(distance(L, S) > 0, dtype, forbidden=mx.finfo(dtype).min)


@day.wrong(
    "1.3.1", "ones-and-zeros",
    fact="the mask holds 1 where a query may look and 0 elsewhere",
    question="This mask is added to the scores. What do 1 and 0 do to them?",
)  # fmt: skip
def ones_and_zeros(L, S, dtype):
    return fill(distance(L, S) > 0, dtype, visible=1.0, forbidden=0.0)


@day.wrong(
    "1.3.1", "zero-times-infinity",
    fact="zeros are multiplied by -inf",
    question="What is 0 times infinity in floating point?",
)  # fmt: skip
def zero_times_infinity(L, S, dtype):
    return ((distance(L, S) > 0).astype(dtype) * -mx.inf).astype(dtype)


@day.wrong(
    "1.3.1", "booleans",
    fact="the mask holds booleans, True where a query may look",
    question="Which dtype was asked for, and what happens to True when it is added to a score?",
)  # fmt: skip
def booleans(L, S, dtype):
    return distance(L, S) <= 0


@day.wrong(
    "1.3.1", "keys-by-queries",
    fact="the mask is S x L, one row for each key",
    question="The scores are L x S. Who has a row of its own: a query, or a key?",
)  # fmt: skip
def keys_by_queries(L, S, dtype):
    return causal_mask(L, S, dtype).T


@day.wrong(
    "1.3.1", "float32-result",
    fact="the mask is float32 whatever `dtype` says",
    question="Which dtype should causal_mask(3, 5, mx.float16) have?",
)  # fmt: skip
def mask_float32(L, S, dtype):
    return causal_mask(L, S, mx.float32)


def refuse(L, S):
    if L > S:
        raise ValueError("too many queries")


@day.accepted("1.3.1", "upper-triangle")
def upper_triangle(L, S, dtype):
    refuse(L, S)
    return mx.triu(mx.full((L, S), -mx.inf, dtype), k=S - L + 1)


@day.accepted("1.3.1", "last-rows-of-the-whole")
def last_rows(L, S, dtype):
    refuse(L, S)
    rows = [[0.0 if j <= i else -mx.inf for j in range(S)] for i in range(S)]
    return mx.array(rows[S - L :], dtype=dtype)


@day.accepted("1.3.1", "logarithm-of-a-triangle")
def logarithm(L, S, dtype):
    refuse(L, S)
    return mx.log(mx.tri(L, S, S - L)).astype(dtype)


# 1.3.2 grouped attention


def inputs(seed, dtype=mx.float32, length=3, keys=5):
    """H = 6, H_kv = 2: a group of 3."""
    draw = normals(seed, dtype)
    return draw(4, 6, length, 8), draw(4, 2, keys, 8), draw(4, 2, keys, 8)


@day.probe("1.3.2")
def grouped_plain(program):
    return program(*inputs(21))


@day.probe("1.3.2")
def grouped_given_scale(program):
    return program(*inputs(22), scale=0.7)


@day.probe("1.3.2")
def grouped_causal(program):
    return program(*inputs(23), mask="causal")


@day.probe("1.3.2")
def grouped_causal_square(program):
    return program(*inputs(24, keys=3), mask="causal")


@day.probe("1.3.2")
def grouped_mask(program):
    draw = normals(250)
    return tuple(program(*inputs(25), mask=draw(*shape, spread=2.0)) for shape in [(3, 5), (6, 3, 5), (4, 6, 3, 5)])


@day.probe("1.3.2", mx.float16)
def grouped_half(program):
    three = inputs(26, mx.float16)
    return program(*three), program(*three, mask=causal(3, 5, mx.float32))


def spread_mask(query, key, mask):
    """The mask as the solution sees it, N x H x L x S, or None."""
    if isinstance(mask, str):
        mask = causal_mask(query.shape[-2], key.shape[-2], query.dtype)
    return None if mask is None else mx.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))


def by_kv_head(x, kv_heads):
    """N.. x H x ... -> N.. x H_kv x H/H_kv x ..."""
    return mx.unflatten(x, -3, (kv_heads, -1))


def by_place_in_group(x, kv_heads):
    """The heads dealt out like cards, H/H_kv x H_kv, and turned into H_kv x H/H_kv."""
    return mx.unflatten(x, -3, (-1, kv_heads)).swapaxes(-4, -3)


def in_groups(query, key, value, scale, mask, split_query=by_kv_head, split_mask=by_kv_head):
    """The solution in steps that a mistake can replace one at a time."""
    kv_heads, mask = key.shape[-3], spread_mask(query, key, mask)
    if mask is not None:
        mask = split_mask(mask, kv_heads)
    return attend(split_query(query, kv_heads), key[..., None, :, :], value[..., None, :, :], scale, mask)


def joined(x):
    return x.flatten(-4, -3)


def joined_by_place(x):
    return x.swapaxes(-4, -3).flatten(-4, -3)


@day.wrong(
    "1.3.2", "tile",
    fact="query head h reads key-value head h % H_kv, as if these were dealt out in turn",
    question="With six query heads and two key-value heads, which one should query head 1 read?",
)  # fmt: skip
def tile(query, key, value, scale=None, mask=None):
    return joined_by_place(in_groups(query, key, value, scale, mask, by_place_in_group, by_place_in_group))


@day.wrong(
    "1.3.2", "group-before-kv-head",
    fact="the query heads are split with the group's axis first, and joined with the key-value heads' axis first",
    question="After your two reshapes, does query head 1 come back as output head 1?",
)  # fmt: skip
def group_before_kv_head(query, key, value, scale=None, mask=None):
    return joined(in_groups(query, key, value, scale, mask, by_place_in_group, by_place_in_group))


@day.wrong(
    "1.3.2", "joined-in-another-order",
    fact="the heads come back in another order than they went in: the group's axis is joined as the outer one",
    question="The heads went in as H_kv x H/H_kv. In which order of these two axes do they leave?",
)  # fmt: skip
def joined_in_another_order(query, key, value, scale=None, mask=None):
    return joined_by_place(in_groups(query, key, value, scale, mask))


@day.wrong(
    "1.3.2", "not-joined",
    fact="the result still has the two axes H_kv x H/H_kv in place of H",
    question="Which shape did the query come in, and which shape leaves?",
)  # fmt: skip
def not_joined(query, key, value, scale=None, mask=None):
    return in_groups(query, key, value, scale, mask)


@day.wrong(
    "1.3.2", "first-kv-head-only",
    fact="every query head reads key-value head 0",
    question="Change the last key-value head. Which outputs should change?",
)  # fmt: skip
def first_kv_head_only(query, key, value, scale=None, mask=None):
    return grouped(query, key[..., :1, :, :], value[..., :1, :, :], scale, mask)


@day.wrong(
    "1.3.2", "value-head-tiled",
    fact="the keys come from head h // (H / H_kv), but the values from head h % H_kv",
    question="Do your keys and your values take the same way to a query head?",
)  # fmt: skip
def value_head_tiled(query, key, value, scale=None, mask=None):
    group = query.shape[-3] // key.shape[-3]
    heads = mx.arange(query.shape[-3])
    mask = spread_mask(query, key, mask)
    key, value = mx.take(key, heads // group, axis=-3), mx.take(value, heads % value.shape[-3], axis=-3)
    return attend(query, key, value, scale, mask)


@day.wrong(
    "1.3.2", "causal-ignored",
    fact='mask="causal" hides nothing',
    question="Where in your code does the word become an array?",
)  # fmt: skip
def causal_ignored(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, scale, None if isinstance(mask, str) else mask)


@day.wrong(
    "1.3.2", "causal-upper-left",
    fact='mask="causal" lets query i see the keys 0 to i, as if the queries were the first L of the S positions',
    question="With three queries and five keys, which key is the last that the last query may see?",
)  # fmt: skip
def causal_upper_left(query, key, value, scale=None, mask=None):
    if isinstance(mask, str):
        mask = upper_left(query.shape[-2], key.shape[-2], query.dtype)
    return grouped(query, key, value, scale, mask)


@day.wrong(
    "1.3.2", "always-causal",
    fact="the future is hidden even when there is no mask",
    question="What does mask=None ask for?",
)  # fmt: skip
def always_causal(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, scale, "causal" if mask is None else mask)


@day.wrong(
    "1.3.2", "array-mask-ignored",
    fact="a mask that is an array is not used",
    question='Which masks are there besides None and "causal"?',
)  # fmt: skip
def array_mask_ignored(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, scale, mask if isinstance(mask, str) else None)


@day.wrong(
    "1.3.2", "mask-dealt-out",
    fact="a mask with a head axis is split as H/H_kv x H_kv, so that query heads get each other's masks",
    question="Query head 1 sits at [0, 1] of H_kv x H/H_kv. Where does your code look for its mask?",
)  # fmt: skip
def mask_dealt_out(query, key, value, scale=None, mask=None):
    return joined(in_groups(query, key, value, scale, mask, split_mask=by_place_in_group))


@day.wrong(
    "1.3.2", "mask-of-the-first-in-the-group",
    fact="every query head of a group gets the mask of the group's first head",
    question="How many different masks can H query heads have?",
)  # fmt: skip
def mask_of_the_first(query, key, value, scale=None, mask=None):
    return joined(in_groups(query, key, value, scale, mask, split_mask=lambda m, kv: by_kv_head(m, kv)[..., :1, :, :]))


@day.wrong(
    "1.3.2", "scale-by-all-heads",
    fact="the default scale is 1/sqrt(H * D)",
    question="Over how many numbers does one dot product run?",
)  # fmt: skip
def scale_by_all_heads(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, (query.shape[-3] * query.shape[-1]) ** -0.5 if scale is None else scale, mask)


@day.wrong(
    "1.3.2", "no-scale",
    fact="the default scale 1/sqrt(D) is missing",
    question="What does scale=None mean, here and on day 1?",
)  # fmt: skip
def no_scale(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, 1.0 if scale is None else scale, mask)


@day.wrong(
    "1.3.2", "scale-ignored",
    fact="the scale is always 1/sqrt(D), also when the caller gives another one",
    question="What should scale=0.7 change?",
)  # fmt: skip
def scale_ignored(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, None, mask)


@day.wrong(
    "1.3.2", "float32-result",
    fact="the result is float32 although the query is not",
    question="Which of your factors is an array of float32: a scale, a mask, or a cast?",
)  # fmt: skip
def grouped_float32(query, key, value, scale=None, mask=None):
    return grouped(query, key, value, scale, mask).astype(mx.float32)


@day.wrong(
    "1.3.2", "mask-dtype",
    fact="a float32 mask turns a float16 result into float32",
    question="What is float16 + float32, and when did that addition happen?",
)  # fmt: skip
def grouped_mask_dtype(query, key, value, scale=None, mask=None):
    output = grouped(query, key, value, scale, mask)
    return output.astype(mx.result_type(output.dtype, mask.dtype)) if isinstance(mask, mx.array) else output


def check(query, key, mask):
    """The errors of the docstring, for the programs that are accepted."""
    if query.shape[-3] % key.shape[-3] or (isinstance(mask, str) and mask != "causal"):
        raise ValueError("uneven groups, or an unknown mask")


@day.accepted("1.3.2", "group-folded-into-the-length")
def folded(query, key, value, scale=None, mask=None):
    check(query, key, mask)
    mask = spread_mask(query, key, mask)
    *leading, heads, length, dims = query.shape
    kv_heads, keys = key.shape[-3:-1]
    rows = query.reshape(*leading, kv_heads, heads // kv_heads * length, dims)
    if mask is not None:
        mask = mask.reshape(*leading, kv_heads, heads // kv_heads * length, keys)
    return attend(rows, key, value, scale, mask).reshape(query.shape)


@day.accepted("1.3.2", "loop-over-kv-heads")
def loop_over_kv_heads(query, key, value, scale=None, mask=None):
    check(query, key, mask)
    mask = spread_mask(query, key, mask)
    group, outputs = query.shape[-3] // key.shape[-3], []
    for k in range(key.shape[-3]):
        own = slice(k * group, (k + 1) * group)
        bias = None if mask is None else mask[..., own, :, :]
        one = slice(k, k + 1)
        outputs.append(attend(query[..., own, :, :], key[..., one, :, :], value[..., one, :, :], scale, bias))
    return mx.concatenate(outputs, axis=-3)


@day.accepted("1.3.2", "einsum-in-float32")
def grouped_einsum(query, key, value, scale=None, mask=None):
    check(query, key, mask)
    mask, dtype, kv_heads = spread_mask(query, key, mask), query.dtype, key.shape[-3]
    query, key, value = (x.astype(mx.float32) for x in (query, key, value))
    q = by_kv_head(query, kv_heads)
    scores = mx.einsum("...kgld,...ksd->...kgls", q, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores + by_kv_head(mask, kv_heads)
    weights = mx.softmax(scores, axis=-1)
    return joined(mx.einsum("...kgls,...ksd->...kgld", weights, value)).astype(dtype)


# 1.3.3 Qwen3 attention


class Base(Qwen3MultiHeadAttention):
    """The solution in steps that a mistake can replace one at a time."""

    def project(self, x):  # N x L x H x D, N x L x H_kv x D twice
        pairs = [(self.wq, self.bq, self.num_heads), (self.wk, self.bk, self.num_kv_heads)]
        pairs.append((self.wv, self.bv, self.num_kv_heads))
        return [linear(x, w, b).reshape(*x.shape[:2], n, -1) for w, b, n in pairs]

    def rms(self, x, weight):
        return x if weight is None else mx.fast.rms_norm(x, weight, self.eps)

    def norm(self, q, k):
        return self.rms(q, self.q_norm), self.rms(k, self.k_norm)

    def turn(self, q, k):
        return self.rope(q), self.rope(k)

    def place(self, q, k):
        return self.turn(*self.norm(q, k))

    def attend(self, q, k, v, mask):  # N x H x L x D
        return grouped(q, k, v, mask=mask)

    def join(self, x):
        return x.swapaxes(1, 2).flatten(2)

    def output(self, x):
        return linear(x, self.wo)

    def __call__(self, x, mask=None):
        q, k, v = self.project(x)
        q, k = self.place(q, k)
        q, k, v = (y.swapaxes(1, 2) for y in (q, k, v))
        return self.output(self.join(self.attend(q, k, v, mask)))


def layer_inputs(seed, dtype=mx.float32, length=5, hidden=24):
    """E = 24, H = 6, H_kv = 3, D = 8; weights that give scores of about unit variance."""
    draw = normals(seed, dtype)
    x, wo = draw(2, length, hidden), draw(hidden, 48, spread=0.15)
    return x, (hidden, 6, 3, 8, *(draw(rows, hidden, spread=0.2) for rows in (48, 24, 24)), wo), draw


def run_qwen3(program, seed, mask=None, dtype=mx.float32, **options):
    x, arguments, draw = layer_inputs(seed, dtype)
    weights = {"q_norm": 1 + draw(8, spread=0.5), "k_norm": 1 + draw(8, spread=0.5)}
    return program(*arguments, **weights, max_seq_len=8, **options)(x, mask=mask)


@day.probe("1.3.3")
def qwen3_causal(program):
    return run_qwen3(program, 31, "causal", theta=500)


@day.probe("1.3.3")
def qwen3_plain(program):
    return run_qwen3(program, 32, theta=20)


@day.probe("1.3.3")
def qwen3_eps(program):
    return run_qwen3(program, 33, "causal", theta=500, rms_norm_eps=0.5)


@day.probe("1.3.3")
def qwen3_mask(program):
    return run_qwen3(program, 34, normals(340)(6, 5, 5), theta=500)


@day.probe("1.3.3")
def qwen25(program):
    x, arguments, draw = layer_inputs(35)
    return program(*arguments, bq=draw(48), bk=draw(24), bv=draw(24), max_seq_len=8, theta=500)(x, mask="causal")


def run_with(program, seed, *names):
    """Some of the five weights that a layer may have or not."""
    x, arguments, draw = layer_inputs(seed)
    extra = {"q_norm": 1 + draw(8, spread=0.5), "k_norm": 1 + draw(8, spread=0.5)}
    extra |= {"bq": draw(48), "bk": draw(24), "bv": draw(24)}
    return program(*arguments, **{name: extra[name] for name in names}, max_seq_len=8, theta=500)(x, mask="causal")


@day.probe("1.3.3")
def one_norm(program):
    return run_with(program, 37, "q_norm"), run_with(program, 38, "k_norm")


@day.probe("1.3.3")
def one_bias(program):
    return run_with(program, 39, "bq"), run_with(program, 40, "bk"), run_with(program, 41, "bv")


@day.probe("1.3.3")
def norms_and_biases(program):
    return run_with(program, 42, "q_norm", "k_norm", "bq", "bk", "bv")


@day.probe("1.3.3", mx.float16)
def qwen3_half(program):
    return run_qwen3(program, 36, "causal", mx.float16, theta=500)


@day.wrong(
    "1.3.3", "no-norms",
    fact="queries and keys are not normalised",
    question="Which two weights of D numbers are still unused?",
)  # fmt: skip
class NoNorms(Base):
    def norm(self, q, k):
        return q, k


@day.wrong(
    "1.3.3", "norm-after-rope",
    fact="the norms come after RoPE",
    question="RoPE mixes features i and i + D/2. Which feature should q_norm's weight i multiply?",
)  # fmt: skip
class NormAfterRope(Base):
    def place(self, q, k):
        return self.norm(*self.turn(q, k))


@day.wrong(
    "1.3.3", "norms-exchanged",
    fact="q_norm and k_norm have changed places",
    question="Both weights have D numbers. Which one belongs to the keys?",
)  # fmt: skip
class NormsExchanged(Base):
    def norm(self, q, k):
        return self.rms(q, self.k_norm), self.rms(k, self.q_norm)


@day.wrong(
    "1.3.3", "norm-over-all-heads",
    fact="one norm runs over the features of all heads together",
    question="q_norm has D weights. Over how many numbers does the mean of the squares run?",
)  # fmt: skip
class NormOverAllHeads(Base):
    def rms(self, x, weight):
        if weight is None:
            return x
        return mx.unflatten(mx.fast.rms_norm(x.flatten(2), None, self.eps), -1, x.shape[2:]) * weight


@day.wrong(
    "1.3.3", "norm-weights-ignored",
    fact="queries and keys are normalised, but not multiplied by q_norm and k_norm",
    question="What do the weights of a norm do after the division?",
)  # fmt: skip
class NormWeightsIgnored(Base):
    def rms(self, x, weight):
        return x if weight is None else mx.fast.rms_norm(x, None, self.eps)


@day.wrong(
    "1.3.3", "norms-without-weights",
    fact="queries and keys are normalised even if q_norm and k_norm are None",
    question="Qwen2.5 has no such weights. Does it have the norms?",
)  # fmt: skip
class NormsWithoutWeights(Base):
    def rms(self, x, weight):
        return mx.fast.rms_norm(x, weight, self.eps)


@day.wrong(
    "1.3.3", "values-normalised",
    fact="the values are normalised too, with k_norm",
    question="What do queries and keys meet in, and do values take part in it?",
)  # fmt: skip
class ValuesNormalised(Base):
    def project(self, x):
        q, k, v = super().project(x)
        return q, k, self.rms(v, self.k_norm)


@day.wrong(
    "1.3.3", "eps-fixed",
    fact="eps is always 1e-6, whatever rms_norm_eps says",
    question="Where does rms_norm_eps go after the constructor has received it?",
)  # fmt: skip
class EpsFixed(Base):
    def rms(self, x, weight):
        return x if weight is None else mx.fast.rms_norm(x, weight, 1e-6)


@day.wrong(
    "1.3.3", "no-positions",
    fact="the positions are missing: nothing is turned",
    question="Without RoPE, how would the layer tell `dog is blue` from `blue is dog`?",
)  # fmt: skip
class NoPositions(Base):
    def turn(self, q, k):
        return q, k


@day.wrong(
    "1.3.3", "queries-turned-only",
    fact="the queries are turned by RoPE, but not the keys",
    question="A score should depend on the distance i - j. From where does it learn j?",
)  # fmt: skip
class QueriesTurnedOnly(Base):
    def turn(self, q, k):
        return self.rope(q), k


@day.wrong(
    "1.3.3", "values-turned",
    fact="the values are turned by RoPE too",
    question="Which two of the three vectors meet in a score?",
)  # fmt: skip
class ValuesTurned(Base):
    def project(self, x):
        q, k, v = super().project(x)
        return q, k, self.rope(v)


@day.wrong(
    "1.3.3", "positions-from-heads",
    fact="the heads are counted as positions: head and length had changed places before RoPE ran",
    question="On which axis does your RoPE expect the length, and where is it when you call it?",
)  # fmt: skip
class PositionsFromHeads(Base):
    def turn(self, q, k):
        return tuple(self.rope(y.swapaxes(1, 2)).swapaxes(1, 2) for y in (q, k))


@day.wrong(
    "1.3.3", "traditional-pairs",
    fact="neighbours are paired in RoPE, features 2i and 2i + 1",
    question="Which pairing does the docstring of the constructor ask for?",
)  # fmt: skip
class TraditionalPairs(Base):
    def __init__(self, *arguments, max_seq_len=32768, theta=1000000, **weights):
        super().__init__(*arguments, **weights)
        self.rope = RoPE(arguments[3], max_seq_len, theta, traditional=True)


@day.wrong(
    "1.3.3", "theta-10000",
    fact="theta is always 10000 in RoPE, whatever the caller gives",
    question="Which arguments does your RoPE get, and which does it take from its defaults?",
)  # fmt: skip
class Theta10000(Base):
    def __init__(self, *arguments, theta=1000000, **weights):
        super().__init__(*arguments, theta=10000, **weights)


@day.wrong(
    "1.3.3", "theta-1000000",
    fact="theta is always 1000000 in RoPE, whatever the caller gives",
    question="Not every model uses the default. Where does theta go?",
)  # fmt: skip
class Theta1000000(Base):
    def __init__(self, *arguments, theta=1000000, **weights):
        super().__init__(*arguments, **weights)


@day.wrong(
    "1.3.3", "no-biases",
    fact="the biases are left out",
    question="Which weights does Qwen2.5 bring that Qwen3 does not?",
)  # fmt: skip
class NoBiases(Base):
    def project(self, x):
        self.bq = self.bk = self.bv = None
        return super().project(x)


@day.wrong(
    "1.3.3", "no-value-bias",
    fact="the values have no bias",
    question="How many projections have a bias in Qwen2.5?",
)  # fmt: skip
class NoValueBias(Base):
    def project(self, x):
        self.bv = None
        return super().project(x)


@day.wrong(
    "1.3.3", "norms-only-as-a-pair",
    fact="queries and keys are normalised only if both q_norm and k_norm are given",
    question="With q_norm given and k_norm None, which of the two norms does the constructor's docstring ask for?",
)  # fmt: skip
class NormsOnlyAsAPair(Base):
    def norm(self, q, k):
        return (q, k) if self.q_norm is None or self.k_norm is None else super().norm(q, k)


@day.wrong(
    "1.3.3", "biases-only-together",
    fact="the biases are added only if all three are given",
    question="With bq given and bv None, which projections have a bias?",
)  # fmt: skip
class BiasesOnlyTogether(Base):
    def project(self, x):
        if self.bq is None or self.bk is None or self.bv is None:
            self.bq = self.bk = self.bv = None
        return super().project(x)


@day.wrong(
    "1.3.3", "biases-or-norms",
    fact="the biases are left out where there are norms",
    question="Qwen3 has norms and Qwen2.5 has biases. Which weights does the constructor forbid to come together?",
)  # fmt: skip
class BiasesOrNorms(Base):
    def project(self, x):
        if self.q_norm is not None or self.k_norm is not None:
            self.bq = self.bk = self.bv = None
        return super().project(x)


@day.wrong(
    "1.3.3", "mask-ignored",
    fact="the mask does not reach the attention",
    question="Where does `mask` go after __call__ has received it?",
)  # fmt: skip
class MaskIgnored(Base):
    def attend(self, q, k, v, mask):
        return super().attend(q, k, v, None)


@day.wrong(
    "1.3.3", "always-causal",
    fact="the mask is causal whatever the caller gives",
    question="What does mask=None ask for, and what an array?",
)  # fmt: skip
class AlwaysCausal(Base):
    def attend(self, q, k, v, mask):
        return super().attend(q, k, v, "causal")


@day.wrong(
    "1.3.3", "scale-from-hidden-size",
    fact="the scores are scaled by 1/sqrt(E / H) instead of 1/sqrt(D)",
    question="Is a head's size here what is left when E is shared among the heads?",
)  # fmt: skip
class ScaleFromHiddenSize(Base):
    def attend(self, q, k, v, mask):
        return grouped(q, k, v, (self.wq.shape[1] // self.num_heads) ** -0.5, mask)


@day.wrong(
    "1.3.3", "wk-and-wv-exchanged",
    fact="wk and wv have changed places",
    question="Both have H_kv * D rows. Which weight projects the keys?",
)  # fmt: skip
class WeightsExchanged(Base):
    def project(self, x):
        q, k, v = super().project(x)
        kv = (self.num_kv_heads, -1)
        k, v = (linear(x, w, b) for w, b in ((self.wv, self.bk), (self.wk, self.bv)))
        return q, mx.unflatten(k, -1, kv), mx.unflatten(v, -1, kv)


@day.wrong(
    "1.3.3", "join-without-swap",
    fact="the heads are reshaped straight from N x H x L x D to N x L x (H * D), without swapping axes back",
    question="Which numbers lie side by side in memory, and whose should lie side by side in the joined result?",
)  # fmt: skip
class JoinWithoutSwap(Base):
    def join(self, x):
        return x.reshape(x.shape[0], x.shape[2], -1)


@day.wrong(
    "1.3.3", "float32-result",
    fact="the result is float32 although x is not",
    question="Where do your float16 numbers meet a float32 one?",
)  # fmt: skip
class Float32Result(Base):
    def output(self, x):
        return super().output(x).astype(mx.float32)


@day.accepted("1.3.3", "step-by-step")
class StepByStep(Base):
    """The solution with reshape in place of unflatten."""


@day.accepted("1.3.3", "norm-by-hand")
class NormByHand(Base):
    def rms(self, x, weight):
        if weight is None:
            return x
        wide = x.astype(mx.float32)
        return (wide / mx.sqrt((wide * wide).mean(-1, keepdims=True) + self.eps) * weight).astype(x.dtype)


@day.accepted("1.3.3", "positions-from-three")
class PositionsFromThree(Base):
    """Right, as only the distance of two positions counts."""

    def __init__(self, *arguments, max_seq_len=32768, theta=1000000, **weights):
        super().__init__(*arguments, max_seq_len=max_seq_len + 3, theta=theta, **weights)

    def turn(self, q, k):
        own = slice(3, 3 + q.shape[1])
        return self.rope(q, own), self.rope(k, own)


@day.accepted("1.3.3", "loop-over-heads")
class LoopOverHeads(Base):
    """Day 1's attention for one head after another."""

    def attend(self, q, k, v, mask):
        mask, group = spread_mask(q, k, mask), self.num_heads // self.num_kv_heads
        heads = []
        for h in range(self.num_heads):
            own = None if mask is None else mask[:, h]
            heads.append(attend(q[:, h], k[:, h // group], v[:, h // group], mask=own))
        return mx.stack(heads, axis=1)

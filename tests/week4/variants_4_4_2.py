"""Known programs of task 4.4.2, latent attention expanded."""

import mlx.core as mx
from tests.week4.latent_formulas import COMPRESSED, PLAIN, random_layer
from tiny_llm_solution.latent_attention.config import LatentConfig

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.4.2")


def made(program, layer, extra=None):
    return program(LatentConfig.from_dict(layer.config), {**(extra or {}), **layer.weights})


def attended(program, base, seed, length=5, longer=1.0, dtype=mx.float32, **changes):
    layer = random_layer(base, seed, dtype, **changes)
    return made(program, layer)(longer * normals(seed, dtype)(2, length, layer.config["hidden_size"]))


def part(program, base, seed, method, start):
    """Return a method's result for four tokens from a position on."""
    layer = made(program, random_layer(base, seed))
    return getattr(layer, method)(normals(seed)(2, 4, 20), slice(start, start + 4))


known.probe_table(
    plain=lambda program: attended(program, PLAIN, 31),
    compressed=lambda program: attended(program, COMPRESSED, 32),
    first_token=lambda program: attended(program, PLAIN, 37, 1),
    one_head=lambda program: attended(program, PLAIN, 38, num_attention_heads=1),
    # with one pair there are no halves; values are as wide as keys without RoPE
    one_pair=lambda program: attended(program, PLAIN, 39, qk_rope_head_dim=2, v_head_dim=5),
    short_inputs=lambda program: attended(program, COMPRESSED, 40, longer=0.003),
    queries=lambda program: part(program, COMPRESSED, 33, "queries", 0),
    queries_further_on=lambda program: part(program, PLAIN, 34, "queries", 5),
    latents=lambda program: part(program, PLAIN, 35, "latents", 0),
    latents_further_on=lambda program: part(program, PLAIN, 36, "latents", 5),
    with_the_other_s_weights=lambda program: made(
        program, random_layer(PLAIN, 42), random_layer(COMPRESSED, 420).weights
    )(normals(42)(1, 3, 20)),
)
known.probe_table(mx.float16, half=lambda program: attended(program, PLAIN, 41, dtype=mx.float16))


@known.sized("128 tokens, E 256, H 8, C 64, D_nope 32, D_rope 16, D_v 32")
def sized(program):
    measures = {"num_attention_heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16}
    layer = random_layer(PLAIN, 1, hidden_size=256, v_head_dim=32, max_position_embeddings=128, **measures)
    program_of_layer, x = made(program, layer), normals(1)(1, 128, 256)
    return lambda: program_of_layer(x)


SPLIT_QUERY = "nope, rope = mx.split(query, [self.config.qk_nope_head_dim], axis=-1)"
SPLIT_DOWN = "latent, key = mx.split(linear(x, self.down), [self.config.kv_lora_rank], axis=-1)"
KEYS_AND_VALUES = "key, value = mx.split(both, [self.config.qk_nope_head_dim], axis=-1)"
TURNED_KEY = "self.rope(key[:, :, None], positions)[:, :, 0]"

known.change(
    "no-latent-norm",
    ("return self.norm(latent), ", "return latent, "),
    fact="the norm of the latent is missing",
    question="If x is multiplied by 100, what should happen to the latent?",
)
known.change(
    "norm-without-weight",
    ("RMSNorm(config.kv_lora_rank, own[", "RMSNorm(config.kv_lora_rank, 0 * own["),
    ('["kv_a_layernorm.weight"], NORM_EPS)', '["kv_a_layernorm.weight"] + 1, NORM_EPS)'),
    fact="the norm of the latent ignores its weight",
    question="Which of the weights in the dictionary are unused?",
)
known.change(
    "rope-key-normed",
    (
        TURNED_KEY,
        "self.rope(mx.fast.rms_norm(key, None, NORM_EPS)[:, :, None], positions)[:, :, 0]",
    ),
    fact="the RoPE key is also normalized",
    question="How many numbers has the norm's weight, and how many does kv_a_proj_with_mqa return?",
)
known.change(
    "another-eps",
    ('own["kv_a_layernorm.weight"], NORM_EPS)', 'own["kv_a_layernorm.weight"])'),
    fact="the norm of the latent has an eps of 1e-5",
    question="What is your RMSNorm's default eps?",
)
known.change(
    "no-query-norm",
    ("x = self.query_norm(linear(x, self.query_down))", "x = linear(x, self.query_down)"),
    fact="the norm of the query latent is missing",
    question="What comes between q_a_proj and q_b_proj?",
)
known.change(
    "by-the-weights",
    ("= config.q_lora_rank", '= len(own["q_a_proj.weight"]) if "q_a_proj.weight" in own else config.q_lora_rank'),
    fact="queries use a latent whenever its weights exist, even if the config has no q_lora_rank",
    question="What decides which weights a layer uses: the dictionary or the config?",
)
known.change(
    "rope-after-swapping",
    ("self.rope(rope, positions).swapaxes(1, 2)", "self.rope(rope.swapaxes(1, 2), positions)"),
    fact="the queries are rotated after heads and length were swapped, so RoPE takes the heads for tokens",
    question="Which axis of its argument does your RoPE take for the positions?",
)
known.change(
    "rope-key-without-head-axis",
    (TURNED_KEY, "self.rope(key, positions)"),
    fact="the RoPE key is passed to RoPE without an axis for its head",
    question="How many axes does your RoPE need, and how many does the RoPE key have?",
)
known.change(
    "halves",
    ("traditional=True", "traditional=False"),
    fact="RoPE pairs features i and i + D_rope/2 instead of neighbors",
    question="Which two features are pair 0 in DeepSeek's weights, and which in Qwen's?",
)
known.change(
    "default-theta",
    ("config.max_position_embeddings, config.rope_theta, traditional", "config.max_position_embeddings, traditional"),
    fact="RoPE uses its default base instead of rope_theta",
    question="Which of the config's entries does your RoPE not get?",
)
known.change(
    "rope-key-without-rope",
    (TURNED_KEY, "key"),
    fact="RoPE is not applied to the RoPE key",
    question="Which two arrays must be rotated for a score to depend on the distance?",
)
known.change(
    "queries-without-rope",
    ("self.rope(rope, positions).swapaxes(1, 2)", "rope.swapaxes(1, 2)"),
    fact="RoPE is not applied to the queries",
    question="Which two arrays must be rotated for a score to depend on the distance?",
)
known.change(
    "positions-from-zero",
    ("self.rope(rope, positions)", "self.rope(rope)"),
    ("self.rope(key[:, :, None], positions)", "self.rope(key[:, :, None])"),
    fact="positions always start at 0, whatever offset is given",
    question="What does your RoPE do with the slice that you pass?",
)
known.change(
    "key-positions-from-zero",
    ("self.rope(key[:, :, None], positions)", "self.rope(key[:, :, None])"),
    fact="the RoPE key's positions always start at 0, whatever offset is given",
    question="The new token is at position 5. By which angles is its RoPE key rotated?",
)
known.change(
    "query-positions-from-zero",
    ("self.rope(rope, positions)", "self.rope(rope)"),
    fact="the queries' positions always start at 0, whatever offset is given",
    question="The new token is at position 5. By which angles is its query rotated?",
)
known.together("key-positions-from-zero", "query-positions-from-zero", makes="positions-from-zero")
known.change(
    "rope-before-nope",
    (SPLIT_QUERY, "rope, nope = mx.split(query, [self.config.qk_rope_head_dim], axis=-1)"),
    fact="the first features of each query are rotated instead of the last",
    question="Which part of a query comes first in each head?",
)
known.change(
    "query-split-before-heads",
    (
        SPLIT_QUERY,
        """
        nope, rope = mx.split(query.flatten(2), [query.shape[2] * self.config.qk_nope_head_dim], axis=-1)
        nope, rope = (mx.unflatten(y, -1, (self.config.num_attention_heads, -1)) for y in (nope, rope))
        """,
    ),
    fact="the queries are split into their two parts before they are split into heads",
    question="Which split comes first: heads, or the two parts?",
)
known.change(
    "rope-key-before-latent",
    (SPLIT_DOWN, "key, latent = mx.split(linear(x, self.down), [self.config.qk_rope_head_dim], axis=-1)"),
    fact="the first numbers of kv_a_proj_with_mqa are read as the RoPE key",
    question="Which rows of kv_a_proj_with_mqa come first?",
)
known.change(
    "keys-before-values",
    (
        KEYS_AND_VALUES,
        """
        heads, flat = self.config.num_attention_heads, both.swapaxes(1, 2).flatten(2)
        key, value = mx.split(flat, [heads * self.config.qk_nope_head_dim], axis=-1)
        key, value = (mx.unflatten(y, -1, (heads, -1)).swapaxes(1, 2) for y in (key, value))
        """,
    ),
    fact="kv_b_proj is split into all heads' keys, then all heads' values",
    question="Which rows of kv_b_proj are head 0's?",
)
known.change(
    "value-before-key",
    (KEYS_AND_VALUES, "value, key = mx.split(both, [self.config.v_head_dim], axis=-1)"),
    fact="each head's first rows of kv_b_proj are read as the value",
    question="Which of the two comes first in a head's rows?",
)
known.change(
    "heads-dealt-out",
    (
        "mx.unflatten(linear(latent, self.up), -1, (self.config.num_attention_heads, -1)).swapaxes(1, 2)",
        "mx.unflatten(linear(latent, self.up), -1, (-1, self.config.num_attention_heads)).transpose(0, 3, 1, 2)",
    ),
    fact="the rows of kv_b_proj are interleaved over the heads",
    question="To which head does row 1 of kv_b_proj belong?",
)
known.change(
    "no-rope-score",
    (" + query_rope @ key_rope[:, None].swapaxes(-1, -2)", ""),
    fact="the RoPE part of the scores is missing",
    question="How many products does a score sum?",
)
known.change(
    "rope-score-alone",
    ("query @ key.swapaxes(-1, -2) + ", ""),
    fact="the part of the scores without RoPE is missing",
    question="How many products does a score sum?",
)
known.change(
    "scale-of-one-part",
    ("self.config.query_dim**-0.5", "self.config.qk_nope_head_dim**-0.5"),
    fact="the scale is 1/sqrt(D_nope)",
    question="Over how many features does a score run, both parts together?",
)
known.change(
    "scale-of-an-entry",
    ("self.config.query_dim**-0.5", "self.config.entry_dim**-0.5"),
    fact="the scale is 1/sqrt(C + D_rope)",
    question="Over how many features does a score run, both parts together?",
)
known.change(
    "no-scale",
    ("scores * self.config.query_dim**-0.5", "scores"),
    fact="the scale is missing",
    question="What is the spread of a dot product of D features?",
)
known.change(
    "one-product-scaled",
    ("scores = query @ key.swapaxes(-1, -2)", "scores = query @ key.swapaxes(-1, -2) * self.config.query_dim**-0.5"),
    ("scores * self.config.query_dim**-0.5", "scores"),
    fact="only the first of the two products is scaled",
    question="In a * s + b, what is multiplied by s?",
)
known.change(
    "a-scale-for-each-part",
    (
        "query @ key.swapaxes(-1, -2) + query_rope @ key_rope[:, None].swapaxes(-1, -2)",
        "(query * self.config.qk_nope_head_dim**-0.5) @ key.swapaxes(-1, -2)"
        " + (query_rope * self.config.qk_rope_head_dim**-0.5) @ key_rope[:, None].swapaxes(-1, -2)",
    ),
    ("scores * self.config.query_dim**-0.5", "scores"),
    fact="each of the two products has a scale of its own, 1/sqrt(D_nope) and 1/sqrt(D_rope)",
    question="A score is one dot product in two parts. How many features does it sum over?",
)
known.change(
    "not-causal",
    (" + causal_mask(length, length, scores.dtype)", ""),
    fact="the causal mask is missing",
    question="Which keys may the first token see?",
)
known.change(
    "joined-without-swapping",
    ("attended.swapaxes(1, 2).flatten(2)", "attended.reshape(*x.shape[:2], -1)"),
    fact="the heads are joined without swapping heads and length back",
    question="Which numbers of your N x H x L x D_v are contiguous, and which should be?",
)
known.change(
    "float32-result",
    (".flatten(2), self.output)", ".flatten(2), self.output).astype(mx.float32)"),
    fact="the result is float32 although x is not",
    question="Which of your operands is a float32 array: a scale, a mask, or a converted one?",
)


@known.accepted("keys in one piece")
class Whole:
    """Keys in one array, as wide as queries, with the shared part repeated for each head; softmax in float32."""

    def __init__(self, config, weights):
        self.config, self.weights = config, {name: w for name, w in weights.items() if name.startswith("self_attn.")}
        query = ["q_proj"] if config.q_lora_rank is None else ["q_a_proj", "q_a_layernorm", "q_b_proj"]
        for name in (*query, "kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj", "o_proj"):
            self.w(name)

    def w(self, name):
        return self.weights[f"self_attn.{name}.weight"]

    def turned(self, x, positions):
        """N x H x L x D_rope, as complex numbers."""
        c = self.config
        if positions.stop > c.max_position_embeddings:
            raise ValueError(f"{positions.stop} positions")
        paces = mx.power(c.rope_theta, -2.0 * mx.arange(c.qk_rope_head_dim // 2) / c.qk_rope_head_dim)
        angles = mx.arange(positions.start, positions.stop)[:, None] * paces
        y = x.astype(mx.float32)
        left, right, cos, sin = y[..., ::2], y[..., 1::2], mx.cos(angles), mx.sin(angles)
        return mx.stack([left * cos - right * sin, right * cos + left * sin], -1).flatten(-2).astype(x.dtype)

    def queries(self, x, positions):
        c = self.config
        if c.q_lora_rank is not None:
            x = mx.fast.rms_norm(x @ self.w("q_a_proj").T, self.w("q_a_layernorm"), 1e-6)
        y = x @ self.w("q_proj" if c.q_lora_rank is None else "q_b_proj").T
        y = y.reshape(*y.shape[:2], c.num_attention_heads, -1).transpose(0, 2, 1, 3)
        return y[..., : c.qk_nope_head_dim], self.turned(y[..., c.qk_nope_head_dim :], positions)

    def latents(self, x, positions):
        y, rank = x @ self.w("kv_a_proj_with_mqa").T, self.config.kv_lora_rank
        latent = mx.fast.rms_norm(y[..., :rank], self.w("kv_a_layernorm"), 1e-6)
        return latent, self.turned(y[:, None, :, rank:], positions)[:, 0]

    def __call__(self, x):
        c, (batch, length, _) = self.config, x.shape
        query = mx.concatenate(self.queries(x, slice(0, length)), axis=-1)
        latent, shared = self.latents(x, slice(0, length))
        both = (latent @ self.w("kv_b_proj").T).reshape(batch, length, c.num_attention_heads, -1)
        key, value = both[..., : c.qk_nope_head_dim], both[..., c.qk_nope_head_dim :]
        shared = mx.repeat(shared[:, :, None], c.num_attention_heads, axis=2)
        key = mx.concatenate([key, shared], axis=-1)
        scores = mx.einsum("bhld,bshd->bhls", query, key) * c.query_dim**-0.5
        scores = mx.where(mx.tri(length, dtype=mx.bool_), scores, -mx.inf)
        weights = mx.softmax(scores, axis=-1, precise=True)
        return mx.einsum("bhls,bshd->blhd", weights, value).reshape(batch, length, -1) @ self.w("o_proj").T

"""Reference variants of task 1.5.2, transformer block."""

import mlx.core as mx
from tests.week1.layer_of_operators import layer_of_operators, needed
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, random_model
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.qwen3 import Qwen3TransformerBlock

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusal, refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.5.2")


def block(program, model):
    return program(ModelConfig.from_dict(model.config), model.layer(0))


def run_block(program, base, seed, mask=None, dtype=mx.float32, rows=2, extra=None):
    model = random_model(base, seed, dtype).with_weights(**(extra or {}))
    x = normals(seed, dtype)(rows, 5, model.config["hidden_size"])
    return block(program, model)(x, mask), x


def refuses(program, length, allowed):
    """Return whether `tokens` are rejected when the config allows `limit`. If not, computing them is slow."""
    model = random_model(QWEN3, 27, num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=allowed)
    layer, x = block(program, model), normals(27)(1, length, model.config["hidden_size"])
    return mx.array(refusal(lambda: layer(x, "causal") is None))


known.probe_table(
    qwen3=lambda program: run_block(program, QWEN3, 21),
    qwen25=lambda program: run_block(program, QWEN25, 22),
    causal=lambda program: run_block(program, QWEN3, 23, "causal"),
    finite_mask=lambda program: run_block(program, QWEN3, 24, normals(240)(5, 5)),
    longest_sequence=lambda program: refuses(program, 2049, 2049),
    one_token_too_many=lambda program: refuses(program, 5, 4),
    with_other_weights=lambda program: tuple(
        run_block(program, base, 29, extra=random_model({**base, "model_type": other}, 290).weights)[0]
        for base, other in ((QWEN3, "qwen2"), (QWEN25, "qwen3"))
    ),
    one_row=lambda program: tuple(
        run_block(program, QWEN3, 28, mask, rows=1)[0] for mask in ("causal", normals(280)(5, 5))
    ),
    without_a_norm=lambda program: refusals(
        lambda name: block(program, random_model(QWEN3, 26).without(name)),
        ["model.layers.0.self_attn.q_norm.weight"],
        KeyError,
    ),
)
known.probe_table(mx.float16, half=lambda program: run_block(program, QWEN3, 25, dtype=mx.float16))


@known.sized("64 tokens, a layer of the embedded model, float32")
def sized(program):
    model = embedded_model()
    x, layer = normals(1)(1, 64, 256), block(program, model)
    return lambda: layer(x, "causal")


known.change(
    "mlp-reads-x",
    ("self.mlp_norm(h)", "self.mlp_norm(x)"),
    fact="the MLP reads the layer's input instead of the sum after attention",
    question="What is the input of the second residual branch?",
)
known.change(
    "mlp-reads-attention-alone",
    ("self.mlp_norm(h)", "self.mlp_norm(h - x)"),
    fact="the MLP reads the attention output without the residual stream",
    question="If wo were zeros, what should the MLP still read?",
)
known.change(
    "norms-exchanged",
    ("self.input_norm(x)", "self.mlp_norm(x)"),
    ("self.mlp_norm(h)", "self.input_norm(h)"),
    fact="the two norms of the layer are swapped",
    question="Which of the two names says that its norm comes after attention?",
)
known.change(
    "one-norm-for-both",
    ("self.mlp_norm(h)", "self.input_norm(h)"),
    fact="the input norm is used both before attention and before the MLP",
    question="How many norm weights does a layer have, and how many does yours use?",
)
known.change(
    "no-residual-at-attention",
    ("h = x + self.attention", "h = self.attention"),
    fact="the attention output replaces the residual stream instead of being added to it",
    question="If wo were zeros, what should be left after the attention branch?",
)
known.change(
    "no-residual-at-mlp",
    ("return h + self.mlp", "return self.mlp"),
    fact="the MLP output replaces the residual stream instead of being added to it",
    question="If w_down were zeros, what should be left after the MLP branch?",
)
known.change(
    "no-residuals",
    ("h = x + self.attention", "h = self.attention"),
    ("return h + self.mlp", "return self.mlp"),
    fact="both residual connections are missing: attention feeds the MLP directly",
    question="What should a layer whose wo and w_down are zeros do to its input?",
)
known.change(
    "mlp-added-to-x",
    ("return h + self.mlp", "return x + self.mlp"),
    fact="the MLP output is added to the layer's input, so the attention output is lost",
    question="What does h contain that x does not, and where is it added?",
)
known.change(
    "post-norm",
    ("x + self.attention(self.input_norm(x), mask)", "self.input_norm(x + self.attention(x, mask))"),
    ("h + self.mlp(self.mlp_norm(h))", "self.mlp_norm(h + self.mlp(h))"),
    fact="each norm is applied after its residual sum instead of before its branch",
    question="Is the residual stream itself normalized, or a copy of it?",
)
known.change(
    "norm-after-attention",
    ("self.attention(self.input_norm(x), mask)", "self.mlp_norm(self.attention(self.input_norm(x), mask))"),
    ("self.mlp(self.mlp_norm(h))", "self.mlp(h)"),
    fact="post_attention_layernorm is applied to the attention output, and the MLP reads the stream without a norm",
    question="Each branch starts with a norm. Which norm does the MLP's branch start with?",
)
known.change(
    "residual-of-the-norm",
    ("h = x + self.attention(self.input_norm(x), mask)", "x = self.input_norm(x)\nh = x + self.attention(x, mask)"),
    ("return h + self.mlp(self.mlp_norm(h))", "h = self.mlp_norm(h)\nreturn h + self.mlp(h)"),
    fact="each branch is added to the normalized copy instead of to the residual stream",
    question="Is `x` in your sum still the layer's input?",
)
known.change(
    "no-norms",
    ("self.input_norm(x)", "x"),
    ("self.mlp_norm(h)", "h"),
    fact="attention and MLP read the residual stream directly, without the norms",
    question="Which weights of the layer does your program never read?",
)
known.change(
    "in-place",
    ("h = x + self.attention", "h = x\nh += self.attention"),
    ("return h + self.mlp(self.mlp_norm(h))", "h += self.mlp(self.mlp_norm(h))\nreturn h"),
    fact="the branches are added in place, which changes the caller's array",
    question="After layer(x), what does the caller find in x?",
)
known.change(
    "mask-ignored",
    ("self.input_norm(x), mask", "self.input_norm(x)"),
    fact="the mask is not passed to the attention",
    question="What does __call__ do with `mask`?",
)
known.change(
    "always-causal",
    ("self.input_norm(x), mask", 'self.input_norm(x), "causal"'),
    fact="the mask is always causal, and the caller's mask is ignored",
    question="Without a mask, what should the first token see?",
)
known.change(
    "gate-and-up-exchanged",
    ('("gate", "up", "down")', '("up", "gate", "down")'),
    fact="the MLP gets up_proj as its gate and gate_proj as its up projection",
    question="In which order does Qwen3MLP take its three weights?",
)
known.change(
    "key-and-value-exchanged",
    ('in "qkvo"', 'in "qvko"'),
    ('bk=None if qwen3 else weights["self_attn.k', 'bk=None if qwen3 else weights["self_attn.v'),
    ('bv=None if qwen3 else weights["self_attn.v', 'bv=None if qwen3 else weights["self_attn.k'),
    fact="the key and value projections are swapped",
    question="In which order does Qwen3MultiHeadAttention take its four matrices?",
)
known.change(
    "q-and-k-norm-exchanged",
    ('q_norm=weights["self_attn.q_norm.weight"]', 'k_norm=weights["self_attn.q_norm.weight"]'),
    ('k_norm=weights["self_attn.k_norm.weight"]', 'q_norm=weights["self_attn.k_norm.weight"]'),
    fact="the norms of queries and keys are swapped",
    question="Both norm weights have D numbers. Which one belongs to the queries?",
)
known.change(
    "q-k-norms-skipped",
    ('weights["self_attn.q_norm.weight"] if qwen3 else None', "None"),
    ('weights["self_attn.k_norm.weight"] if qwen3 else None', "None"),
    fact="the norms of queries and keys are not passed to the attention",
    question="Which of a Qwen3 layer's weights does your attention not receive?",
)
known.change(
    "biases-skipped",
    ('None if qwen3 else weights["self_attn.q_proj.bias"]', "None"),
    ('None if qwen3 else weights["self_attn.k_proj.bias"]', "None"),
    ('None if qwen3 else weights["self_attn.v_proj.bias"]', "None"),
    fact="the biases of Qwen2.5's queries, keys and values are not passed to the attention",
    question="Which of a Qwen2.5 layer's weights does your attention not receive?",
)
known.change(
    "missing-is-none",
    ('weights["self_attn.q_norm.weight"] if qwen3 else None', 'weights.get("self_attn.q_norm.weight")'),
    ('weights["self_attn.k_norm.weight"] if qwen3 else None', 'weights.get("self_attn.k_norm.weight")'),
    ('None if qwen3 else weights["self_attn.q_proj.bias"]', 'weights.get("self_attn.q_proj.bias")'),
    ('None if qwen3 else weights["self_attn.k_proj.bias"]', 'weights.get("self_attn.k_proj.bias")'),
    ('None if qwen3 else weights["self_attn.v_proj.bias"]', 'weights.get("self_attn.v_proj.bias")'),
    fact="a q/k norm or bias missing from the weights is treated as one that the model does not have",
    question="What should happen to a Qwen3 checkpoint that has lost q_norm: wrong text, or an error?",
)
known.change(
    "theta-default",
    ("theta=config.rope_theta", "theta=1000000"),
    fact="the theta of RoPE is 1000000, and the config's value is ignored",
    question="Which config entry do you not pass to your attention?",
)
known.change(
    "positions-of-a-fixed-number",
    ("max_seq_len=config.max_position_embeddings", "max_seq_len=2048"),
    fact="the RoPE table has a fixed length, so a longer sequence that the config allows is rejected",
    question="Which config entry says how many positions the table needs?",
)
known.change(
    "mlp-added-to-its-norm",
    ("return h + self.mlp(self.mlp_norm(h))", "h = self.mlp_norm(h)\nreturn h + self.mlp(h)"),
    fact="the MLP output is added to the MLP's normalized input instead of to the residual stream",
    question="After the second norm you need h twice. In which of the two places is it normalized?",
)
known.change(
    "eps-default",
    ('"input_layernorm.weight"], config.rms_norm_eps', '"input_layernorm.weight"], 1e-6'),
    ('"post_attention_layernorm.weight"], config.rms_norm_eps', '"post_attention_layernorm.weight"], 1e-6'),
    ("rms_norm_eps=config.rms_norm_eps", "rms_norm_eps=1e-6"),
    fact="no norm of the layer uses the config's eps",
    question="How many norms does a layer have, and which eps do they get?",
)
known.change(
    "eps-default-in-two-norms",
    ('weights["input_layernorm.weight"], config.rms_norm_eps', 'weights["input_layernorm.weight"]'),
    ('weights["post_attention_layernorm.weight"], config.rms_norm_eps', 'weights["post_attention_layernorm.weight"]'),
    fact="the norms before attention and MLP use a fixed eps instead of the config's",
    question="Which eps does RMSNorm use by default?",
)
known.change(
    "eps-default-in-attention",
    ("rms_norm_eps=config.rms_norm_eps", "rms_norm_eps=1e-6"),
    fact="the norms of queries and keys use a fixed eps instead of the config's",
    question="Which eps does Qwen3MultiHeadAttention use by default?",
)
known.change(
    "float32-result",
    ("h + self.mlp(self.mlp_norm(h))", "(h + self.mlp(self.mlp_norm(h))).astype(mx.float32)"),
    fact="the result is float32 although the residual stream is not",
    question="Which of the arrays added to the residual stream is float32?",
)
for name, edit, reader in (
    ("no-input-norm", ("self.input_norm(x)", "x"), "attention"),
    ("no-mlp-norm", ("self.mlp_norm(h)", "h"), "the MLP"),
):
    known.change(
        name,
        edit,
        fact=f"{reader} reads the residual stream directly, without the norm",
        question="Which norm weight does your program never read?",
    )
known.change(
    "D-from-hidden-size",
    ("config.head_dim,", "config.hidden_size // config.num_attention_heads,"),
    fact="head_dim is computed as hidden_size // num_attention_heads",
    question="Which config entry says how many features a head has?",
)
known.change(
    "norms-of-qwen3-always",
    ('weights["self_attn.q_norm.weight"] if qwen3 else None', 'weights["self_attn.q_norm.weight"]'),
    fact="a Qwen2.5 layer also looks up the norms of queries and keys",
    question="Which weights does Qwen3 have that Qwen2.5 does not?",
)
known.change(
    "biases-of-qwen25-always",
    ('None if qwen3 else weights["self_attn.q_proj.bias"]', 'weights["self_attn.q_proj.bias"]'),
    fact="a Qwen3 layer also looks up the biases of queries, keys and values",
    question="Which weights does Qwen2.5 have that Qwen3 does not?",
)
known.change(
    "mask-only-alone",
    ("self.input_norm(x), mask", "self.input_norm(x), mask if len(x) == 1 else None"),
    fact="the mask is passed to the attention only when N = 1",
    question="Where does your code check N before it passes the mask on?",
)
known.change(
    "biases-whenever-they-are-there",
    ('None if qwen3 else weights["self_attn.q_proj.bias"]', 'weights.get("self_attn.q_proj.bias")'),
    ('None if qwen3 else weights["self_attn.k_proj.bias"]', 'weights.get("self_attn.k_proj.bias")'),
    ('None if qwen3 else weights["self_attn.v_proj.bias"]', 'weights.get("self_attn.v_proj.bias")'),
    fact="biases are used whenever the weights contain them, and the config's model_type is ignored",
    question="A Qwen3 dictionary also holds a q_proj.bias. Should the layer's output depend on it?",
)
known.together("no-residual-at-attention", "no-residual-at-mlp", makes="no-residuals")
known.together("eps-default-in-two-norms", "eps-default-in-attention", makes="eps-default")
known.together("no-input-norm", "no-mlp-norm", makes="no-norms")


@known.accepted("operators-of-mlx")
class OperatorsOfMlx:
    def __init__(self, config, weights):
        self.config, self.weights = config, {name: weights[name] for name in needed(config)}

    def __call__(self, x, mask=None):
        if x.shape[1] > self.config.max_position_embeddings:
            raise ValueError(
                f"{x.shape[1]} tokens, but max_position_embeddings is {self.config.max_position_embeddings}"
            )
        return layer_of_operators(x, self.config, self.weights, mask)


@known.accepted("list-of-steps")
class ListOfSteps(Qwen3TransformerBlock):
    def __call__(self, x, mask=None):
        for norm, step in [(self.input_norm, lambda y: self.attention(y, mask)), (self.mlp_norm, self.mlp)]:
            x = step(norm(x)) + x
        return x

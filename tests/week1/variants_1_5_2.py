"""Known programs of task 1.5.2, transformer block."""

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


def run_block(program, base, seed, mask=None, dtype=mx.float32, rows=2):
    model = random_model(base, seed, dtype)
    x = normals(seed, dtype)(rows, 5, model.config["hidden_size"])
    return block(program, model)(x, mask), x


def refuses(program, length, allowed):
    """Whether so many tokens are refused where a config allows so many. Nothing is computed if they are: slow."""
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


@known.sized("64 tokens, a layer of the model that comes with the course, float32")
def sized(program):
    model = embedded_model()
    x, layer = normals(1)(1, 64, 256), block(program, model)
    return lambda: layer(x, "causal")


known.change(
    "mlp-reads-x",
    ("self.mlp_norm(h)", "self.mlp_norm(x)"),
    fact="the MLP reads what entered the layer, not what attention left",
    question="Of the two steps, what does the second one start from?",
)
known.change(
    "mlp-reads-attention-alone",
    ("self.mlp_norm(h)", "self.mlp_norm(h - x)"),
    fact="the MLP reads what attention gives, without the stream",
    question="If wo were zeros, what should the MLP still read?",
)
known.change(
    "norms-exchanged",
    ("self.input_norm(x)", "self.mlp_norm(x)"),
    ("self.mlp_norm(h)", "self.input_norm(h)"),
    fact="the two norms of the layer are exchanged",
    question="Which of the two names says that its norm comes after attention?",
)
known.change(
    "one-norm-for-both",
    ("self.mlp_norm(h)", "self.input_norm(h)"),
    fact="the input norm stands before attention and before the MLP",
    question="How many norms' weights does a layer bring, and how many are used?",
)
known.change(
    "no-residual-at-attention",
    ("h = x + self.attention", "h = self.attention"),
    fact="attention's output replaces the stream instead of being added to it",
    question="If wo were zeros, what should be left after the first step?",
)
known.change(
    "no-residual-at-mlp",
    ("return h + self.mlp", "return self.mlp"),
    fact="the MLP's output replaces the stream instead of being added to it",
    question="If w_down were zeros, what should be left after the second step?",
)
known.change(
    "no-residuals",
    ("h = x + self.attention", "h = self.attention"),
    ("return h + self.mlp", "return self.mlp"),
    fact="neither step adds the stream: attention feeds the MLP and that is all",
    question="What should a layer whose wo and w_down are zeros do to the stream?",
)
known.change(
    "mlp-added-to-x",
    ("return h + self.mlp", "return x + self.mlp"),
    fact="the MLP's output is added to what entered the layer, so that attention's own share is lost",
    question="What does h hold that x does not, and where does it go?",
)
known.change(
    "post-norm",
    ("x + self.attention(self.input_norm(x), mask)", "self.input_norm(x + self.attention(x, mask))"),
    ("h + self.mlp(self.mlp_norm(h))", "self.mlp_norm(h + self.mlp(h))"),
    fact="each norm is applied after its step and sum, not before the step",
    question="Is what runs from layer to layer normalised, or a copy of it?",
)
known.change(
    "residual-of-the-norm",
    ("h = x + self.attention(self.input_norm(x), mask)", "x = self.input_norm(x)\nh = x + self.attention(x, mask)"),
    ("return h + self.mlp(self.mlp_norm(h))", "h = self.mlp_norm(h)\nreturn h + self.mlp(h)"),
    fact="each step is added to the normalised copy instead of to the stream itself",
    question="Is `x` in your sum still what entered the layer?",
)
known.change(
    "no-norms",
    ("self.input_norm(x)", "x"),
    ("self.mlp_norm(h)", "h"),
    fact="attention and MLP read the stream itself, not a normalised copy",
    question="Which weights of the layer does your program never read?",
)
known.change(
    "in-place",
    ("h = x + self.attention", "h = x\nh += self.attention"),
    ("return h + self.mlp(self.mlp_norm(h))", "h += self.mlp(self.mlp_norm(h))\nreturn h"),
    fact="the steps are added in place, so that the caller's array changes",
    question="After layer(x), what does the caller find in x?",
)
known.change(
    "mask-ignored",
    ("self.input_norm(x), mask", "self.input_norm(x)"),
    fact="the mask does not reach the attention",
    question="Where does `mask` go after __call__ has received it?",
)
known.change(
    "always-causal",
    ("self.input_norm(x), mask", 'self.input_norm(x), "causal"'),
    fact="the mask is always causal, whatever the caller passes",
    question="What should a layer without a mask let the first token see?",
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
    fact="the key and the value projection are exchanged",
    question="In which order does Qwen3MultiHeadAttention take its four matrices?",
)
known.change(
    "q-and-k-norm-exchanged",
    ('q_norm=weights["self_attn.q_norm.weight"]', 'k_norm=weights["self_attn.q_norm.weight"]'),
    ('k_norm=weights["self_attn.k_norm.weight"]', 'q_norm=weights["self_attn.k_norm.weight"]'),
    fact="the norm of the queries and the norm of the keys are exchanged",
    question="Both norms' weights have D numbers. Which one belongs to the queries?",
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
    fact="a q/k norm or bias that is missing from the weights is taken for one that the model does not have",
    question="What should happen to a Qwen3 checkpoint that lost q_norm: wrong text, or an error?",
)
known.change(
    "theta-default",
    ("theta=config.rope_theta", "theta=1000000"),
    fact="the theta of RoPE is 1000000, whatever the config says",
    question="Which of the config's entries does your attention not receive?",
)
known.change(
    "positions-of-a-fixed-number",
    ("max_seq_len=config.max_position_embeddings", "max_seq_len=2048"),
    fact="the layer has room for some fixed number of tokens, and a longer sequence that the config allows is refused",
    question="Which of the config's entries says for how many positions a table is needed?",
)
known.change(
    "room-for-more",
    ("max_seq_len=config.max_position_embeddings", "max_seq_len=32768"),
    fact="the layer has room for more tokens than the config allows",
    question="Which of the config's entries does your attention not receive?",
)
known.change(
    "eps-default",
    ('"input_layernorm.weight"], config.rms_norm_eps', '"input_layernorm.weight"], 1e-6'),
    ('"post_attention_layernorm.weight"], config.rms_norm_eps', '"post_attention_layernorm.weight"], 1e-6'),
    ("rms_norm_eps=config.rms_norm_eps", "rms_norm_eps=1e-6"),
    fact="no norm of the layer gets the config's eps",
    question="How many norms does a layer hold, and which eps do they get?",
)
known.change(
    "eps-default-in-two-norms",
    ('weights["input_layernorm.weight"], config.rms_norm_eps', 'weights["input_layernorm.weight"]'),
    ('weights["post_attention_layernorm.weight"], config.rms_norm_eps', 'weights["post_attention_layernorm.weight"]'),
    fact="the norms before attention and MLP have an eps of their own, not the config's",
    question="Which eps does RMSNorm take if it is given none?",
)
known.change(
    "eps-default-in-attention",
    ("rms_norm_eps=config.rms_norm_eps", "rms_norm_eps=1e-6"),
    fact="the norms of queries and keys have an eps of their own, not the config's",
    question="Which eps does Qwen3MultiHeadAttention take if it is given none?",
)
known.change(
    "float32-result",
    ("h + self.mlp(self.mlp_norm(h))", "(h + self.mlp(self.mlp_norm(h))).astype(mx.float32)"),
    fact="the result is float32 although the stream is not",
    question="Which of the arrays that are added to the stream is float32?",
)
known.change(
    "no-input-norm",
    ("self.input_norm(x)", "x"),
    fact="the attention reads the stream itself, not a normalised copy",
    question="Which norm's weight does your program never read?",
)
known.change(
    "no-mlp-norm",
    ("self.mlp_norm(h)", "h"),
    fact="the MLP reads the stream itself, not a normalised copy",
    question="Which norm's weight does your program never read?",
)
known.change(
    "D-from-hidden-size",
    ("config.head_dim,", "config.hidden_size // config.num_attention_heads,"),
    fact="hidden_size // num_attention_heads is taken for head_dim",
    question="Which entry of the config says how many features a head has?",
)
known.change(
    "norms-of-qwen3-always",
    ('weights["self_attn.q_norm.weight"] if qwen3 else None', 'weights["self_attn.q_norm.weight"]'),
    fact="the norms of queries and keys are looked for in a Qwen2.5 layer, too",
    question="Which weights does Qwen3 have that Qwen2.5 does not?",
)
known.change(
    "biases-of-qwen25-always",
    ('None if qwen3 else weights["self_attn.q_proj.bias"]', 'weights["self_attn.q_proj.bias"]'),
    fact="the biases of queries, keys and values are looked for in a Qwen3 layer, too",
    question="Which weights does Qwen2.5 have that Qwen3 does not?",
)
known.change(
    "mask-only-alone",
    ("self.input_norm(x), mask", "self.input_norm(x), mask if len(x) == 1 else None"),
    fact="the mask reaches the attention only if N = 1",
    question="Where does your code look at N before it passes the mask on?",
)
known.change(
    "mlp-first",
    ("h = x + self.attention(self.input_norm(x), mask)", "h = x + self.mlp(self.mlp_norm(x))"),
    ("return h + self.mlp(self.mlp_norm(h))", "return h + self.attention(self.input_norm(h), mask)"),
    fact="the MLP comes before the attention",
    question="One of the two norms is called post_attention. What comes after it?",
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

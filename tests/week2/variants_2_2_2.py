"""Reference variants of task 2.2.2, the bytes of a step."""

import mlx.core as mx
from tests.week1.reference_model import QWEN3, QWEN25
from tiny_llm_solution.config import ModelConfig
from tiny_llm_solution.measure.step import Step, Storage, Traffic

from tiny_llm_course.testkit.variants import Variants

known = Variants("2.2.2")

WIDE = {"hidden_size": 128, "intermediate_size": 384, "head_dim": 64, "num_attention_heads": 6, "vocab_size": 37}


def counted(program, base, storage, length, offset, batch, **measures):
    found = program(Step(ModelConfig.from_dict({**base, **measures}), length, offset, batch), storage)
    return tuple(mx.array([value]) for value in (found.weights, found.cache_read, found.cache_written))


known.probe_table(
    one_token=lambda program: counted(program, QWEN3, Storage(), 1, 0, 1),
    decode=lambda program: counted(program, QWEN3, Storage(), 1, 7, 1),
    prefill=lambda program: counted(program, QWEN3, Storage(2), 5, 0, 1),
    more_of_a_text=lambda program: counted(program, QWEN3, Storage(), 3, 4, 1),
    batch=lambda program: counted(program, QWEN3, Storage(), 2, 3, 5),
    tied=lambda program: counted(program, QWEN3, Storage(), 2, 3, 5, tie_word_embeddings=True),
    qwen25=lambda program: counted(program, QWEN25, Storage(2), 2, 3, 5),
    three_layers=lambda program: counted(
        program, QWEN25, Storage(), 1, 1, 1, num_hidden_layers=3, num_key_value_heads=1, tie_word_embeddings=True
    ),
    four_bits=lambda program: counted(program, QWEN3, Storage(2, 4, 64, 4), 2, 3, 5, **WIDE),
    eight_bits=lambda program: counted(
        program, QWEN25, Storage(4, 8, 32, 2), 1, 3, 2, **WIDE, tie_word_embeddings=True
    ),
)


known.not_timed("only a few multiplications")


known.change(
    "weights-for-each-token",
    ("weights=c.num_hidden_layers * (layer", "weights=step.length * c.num_hidden_layers * (layer"),
    fact="the weights of the layers are read again for each new token of a row",
    question="A matrix is multiplied by five vectors at once. How many times is it read from memory?",
)
known.change(
    "weights-for-each-row",
    ("weights=c.num_hidden_layers * (layer", "weights=step.batch * c.num_hidden_layers * (layer"),
    fact="the weights of the layers are read again for each row of the batch",
    question="A matrix is multiplied by five vectors at once. How many times is it read from memory?",
)
known.change(
    "rows-of-one-text",
    ("matrix(step.batch * step.length, c.hidden_size)", "matrix(step.length, c.hidden_size)"),
    fact="the embedding rows are counted for only one sequence of the batch",
    question="Five sequences of two tokens each: how many rows of the table is that?",
)
known.change(
    "one-row",
    ("matrix(step.batch * step.length, c.hidden_size)", "matrix(step.batch, c.hidden_size)"),
    fact="the embedding rows are counted for only one token per sequence",
    question="Five sequences of two tokens each: how many rows of the table is that?",
)
known.change(
    "no-rows",
    ("matrix(step.batch * step.length, c.hidden_size) + ", ""),
    fact="no embedding row is read",
    question="Where does a token's vector come from?",
)
known.change(
    "whole-table",
    ("matrix(step.batch * step.length, c.hidden_size)", "matrix(c.vocab_size, c.hidden_size)"),
    fact="the whole embedding table is read to look up a few rows",
    question="Which rows of the table does x[tokens] read?",
)
known.change(
    "tied-rows-unread",
    ("matrix(step.batch", "(not c.tie_word_embeddings) * matrix(step.batch"),
    fact="the embedding rows are not counted when the embedding is tied to the head",
    question="The head comes last. Where do the vectors at the start of the step come from?",
)
known.change(
    "tied-head-unread",
    (" matrix(c.vocab_size, c.hidden_size)", " (0 if c.tie_word_embeddings else matrix(c.vocab_size, c.hidden_size))"),
    fact="a tied head is counted as free",
    question="Which rows of the table do the logits need?",
)
known.change(
    "no-head",
    (" + matrix(c.vocab_size, c.hidden_size)", ""),
    fact="the head is not read",
    question="Which matrix are the logits computed from?",
)
known.change(
    "no-final-norm",
    (" + c.hidden_size * storage.size + ends", " + ends"),
    fact="the final norm is not counted",
    question="What is between the last layer and the head?",
)
known.change(
    "one-norm-a-layer",
    ("2 * c.hidden_size + (2", "c.hidden_size + (2"),
    fact="only one of a layer's two residual norms is counted",
    question="How many branches does a layer have, and what does each of them start with?",
)
known.change(
    "no-head-norms",
    ("2 * c.head_dim if", "0 if"),
    fact="the norms of queries and keys (Qwen3) are not counted",
    question="Which weights does a Qwen3 layer have that a Qwen2.5 layer does not?",
)
known.change(
    "a-norm-for-each-head",
    ("2 * c.head_dim if", "queries + keys if"),
    fact="each head has query and key norms of its own (Qwen3)",
    question="What is the shape of q_norm.weight?",
)
known.change(
    "no-biases",
    ("else queries + 2 * keys)", "else 0)"),
    fact="the biases (Qwen2.5) are not counted",
    question="Which weights does a Qwen2.5 layer have that a Qwen3 layer does not?",
)
known.change(
    "a-bias-missing",
    ("else queries + 2 * keys)", "else queries + keys)"),
    fact="the bias of the key or of the value projection (Qwen2.5) is not counted",
    question="Which projections of a Qwen2.5 layer have biases, and how long is each?",
)
known.change(
    "biases-for-all",
    ("(2 * c.head_dim if", "(queries + 2 * keys + 2 * c.head_dim if"),
    fact="Qwen3 also has biases",
    question="Which weights does a Qwen2.5 layer have that a Qwen3 layer does not?",
)
known.change(
    "dims-of-the-stream",
    (
        "queries, keys = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim",
        "dims = c.hidden_size // c.num_attention_heads\n"
        "queries, keys = c.num_attention_heads * dims, c.num_key_value_heads * dims",
    ),
    fact="the head dimension is E / H",
    question="The config gives head_dim. Is it hidden_size / num_attention_heads?",
)
known.change(
    "keys-for-each-head",
    ("matrix(queries + 2 * keys, c.hidden_size)", "matrix(3 * queries, c.hidden_size)"),
    fact="the key and value projections are as large as the query projection",
    question="How many key-value heads are there?",
)
known.change(
    "no-output-projection",
    (" + matrix(c.hidden_size, queries)", ""),
    fact="the output projection of attention is not counted",
    question="What maps the concatenated heads back to E features?",
)
known.change(
    "two-matrices-in-the-mlp",
    ("2 * matrix(c.intermediate_size, c.hidden_size)", "matrix(c.intermediate_size, c.hidden_size)"),
    fact="the MLP has only two matrices",
    question="What does SwiGLU consist of?",
)
known.change(
    "one-layer",
    ("weights=c.num_hidden_layers * (layer", "weights=(layer"),
    fact="only one layer's weights are counted",
    question="How many layers does a step run?",
)
known.change(
    "cache-of-all-heads",
    ("token = 2 * c.num_hidden_layers * keys", "token = 2 * c.num_hidden_layers * queries"),
    fact="the cache holds keys and values for each of the H heads",
    question="Query heads share keys and values. How many of these are cached?",
)
known.change(
    "cache-of-keys",
    ("token = 2 * c.num_hidden_layers", "token = c.num_hidden_layers"),
    fact="the cache holds only keys or only values, not both",
    question="What does a later token need from an earlier one?",
)
known.change(
    "cache-of-one-layer",
    ("token = 2 * c.num_hidden_layers * keys", "token = 2 * keys"),
    fact="only one layer has a cache",
    question="How many caches does new_caches create?",
)
known.change(
    "cache-of-one-row",
    ("cache_read=step.batch * ", "cache_read="),
    ("cache_written=step.batch * ", "cache_written="),
    fact="the caches of only one row are counted, whatever the batch size",
    question="Do two sequences share their keys?",
)
known.change(
    "new-keys-unread",
    ("(step.offset + step.length) * token", "step.offset * token"),
    fact="only the tokens cached before the step are read",
    question="Which keys does the first token of a sequence attend to?",
)
known.change(
    "read-for-each-query",
    ("step.batch * (step.offset + step.length)", "step.batch * step.length * (step.offset + step.length)"),
    fact="keys and values are read again for each new token",
    question="One product multiplies five queries by the same keys. How many times are the keys read from memory?",
)
known.change(
    "all-written-again",
    ("cache_written=step.batch * step.length", "cache_written=step.batch * (step.length + step.offset)"),
    fact="the whole cache is written in each step",
    question="What does your KVCache write when one token arrives?",
)
known.change(
    "bits-for-bytes",
    ("inputs * storage.bits // 8", "inputs * storage.bits"),
    fact="a packed weight takes as many bytes as it has bits",
    question="How many 4-bit weights fit in a byte?",
)
known.change(
    "no-scales",
    (" + 2 * groups * storage.scale_size", ""),
    fact="scales and biases of the groups are not counted",
    question="What is needed besides the packed weights to dequantize them?",
)
known.change(
    "scales-alone",
    ("2 * groups * storage.scale_size", "groups * storage.scale_size"),
    fact="each group has only one number beside its packed weights",
    question="What is needed besides the packed weights to dequantize them?",
)
known.change(
    "scales-of-16-bits",
    ("groups * storage.scale_size", "groups * 2"),
    fact="scales and biases of the groups take 16 bits each, whatever scale_size is",
    question="Which field of Storage does your program never read?",
)
known.change(
    "scales-like-unpacked-numbers",
    ("groups * storage.scale_size", "groups * storage.size"),
    fact="scales and biases of the groups take `size` bytes each, like unpacked numbers",
    question="Which field of Storage does your program never read?",
)
known.change(
    "rows-unpacked",
    (
        "ends = matrix(step.batch * step.length, c.hidden_size)",
        "ends = step.batch * step.length * c.hidden_size * storage.size",
    ),
    fact="the embedding rows are not packed",
    question="What does the docstring of Storage say about the embedding?",
)
known.change(
    "ends-unpacked",
    (
        "ends = matrix(step.batch * step.length, c.hidden_size) + matrix(c.vocab_size, c.hidden_size)",
        "ends = (step.batch * step.length + c.vocab_size) * c.hidden_size * storage.size",
    ),
    fact="embedding and head are not packed",
    question="What does the docstring of Storage say about embedding and head?",
)
known.change(
    "floats",
    ("storage.bits // 8", "storage.bits / 8"),
    fact="the byte count of packed matrices is a float",
    question="What type does / return in Python, and what type does // return?",
)
known.together("whole-table", "no-head", makes="no-rows")


@known.accepted("weight-by-weight")
def weight_by_weight(step, storage):
    """List all shapes, as in a checkpoint."""
    c = step.config
    every = []
    for _ in range(c.num_hidden_layers):
        wide, narrow = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
        every += [(wide, c.hidden_size), (narrow, c.hidden_size), (narrow, c.hidden_size), (c.hidden_size, wide)]
        every += [(c.intermediate_size, c.hidden_size)] * 2 + [(c.hidden_size, c.intermediate_size)]
        every += [(c.hidden_size,)] * 2
        every += [(c.head_dim,)] * 2 if c.model_type == "qwen3" else [(wide,), (narrow,), (narrow,)]
    every += [(c.hidden_size,), (c.vocab_size, c.hidden_size), (step.batch * step.length, c.hidden_size)]

    def size_of(shape):
        if len(shape) == 1:
            return shape[0] * storage.size
        rows, columns = shape
        if not storage.bits:
            return rows * columns * storage.size
        words = rows * columns * storage.bits // 32
        return 4 * words + rows * (columns // storage.group_size) * (storage.scale_size + storage.scale_size)

    of_a_token = c.num_hidden_layers * c.num_key_value_heads * (c.head_dim + c.head_dim) * storage.size
    new, old = step.batch * step.length * of_a_token, step.batch * step.offset * of_a_token
    return Traffic(sum(map(size_of, every)), old + new, new)

"""The cache, week 2's box on the page of the whole model."""

from book.generate.course import Facts
from book.generate.week1.heads import SENTENCE, model, tokens_of


def engine_facts() -> dict[str, Facts]:
    """Return the facts of the cache's box."""
    config, length = model().config, len(tokens_of(SENTENCE))
    shape = f"H_kv x L x D = {config['num_key_value_heads']} x {length} x {config['head_dim']}, keys and values each"
    about = "The rotated keys and the values of all tokens so far: everything that later tokens need from them."
    return {"layers/attention/KV cache": Facts(about, shape)}

"""What the page of the whole model says of the cache, week 2's box of the engine."""

from book.generate.week1.heads import SENTENCE, model, tokens_of

from tiny_llm_course.dev.book.model import Facts


def engine_facts() -> dict[str, Facts]:
    """What is in the cache's box."""
    config, length = model().config, len(tokens_of(SENTENCE))
    shape = f"H_kv x L x D = {config['num_key_value_heads']} x {length} x {config['head_dim']}, keys and values each"
    about = "The rotated keys and the values of all tokens so far: all that later tokens need of them."
    return {"layers/attention/KV cache": Facts(about, shape)}

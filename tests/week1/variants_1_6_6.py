"""Reference variants of task 1.6.6, generating tokens."""

import mlx.core as mx
from tests.week1.text_probes import Model, add_up, count_up, growth, numbers, refused_when, sampled, taken
from tiny_llm_solution.generate import greedy

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.6")


def told(program, prompt, max_tokens, follow=count_up, **options):
    return numbers(taken(program(Model(follow), prompt, max_tokens, **options)))


@known.probe()
def tokens_plain(program):
    prompt = [3, 1, 4]
    return *(told(program, given, n, add_up) for given, n in ((prompt, 6), ([2], 0), ([2], 1))), numbers(prompt)


known.probe_table(
    end=lambda program: tuple(
        told(program, [5, 3], 9, eos_ids=ids) for ids in ((), (8,), [9, 6], [6, 9], (4,), (3,), (0,))
    ),
    context=lambda program: tuple(
        told(program, [5, 3], n, context_length=length) for n, length in ((9, 5), (9, 3), (9, 2), (2, 9), (2, 4))
    ),
    refused=lambda program: refused_when(
        lambda prompt, most: program(Model(count_up), prompt, 3, context_length=most), ([], None), ([1, 2, 3], 2)
    ),
)
known.probe_table(
    mx.float16,
    sampler=lambda program: sampled(
        lambda sampler: program(Model(add_up, dtype=mx.float16), [3, 5], 3, sampler=sampler)
    ),
)


@known.probe()
def tokens_lazy(program):
    model = Model(count_up)
    return growth(program(model, [3], 4), model.lengths)


@known.sized("128 tokens, by a model that looks only at the last one")
def sized(program):
    follows = normals(1)(256, 256)
    return lambda: list(program(lambda tokens: follows[tokens], [0], 128))


known.change(
    "eos-yielded",
    ("if token in eos_ids:", "if token in eos_ids:\n    yield token"),
    fact="the end-of-sequence token is yielded too",
    question="Should the user see <|im_end|>?",
)
known.change(
    "first-eos-only",
    ("token in eos_ids", "token in list(eos_ids)[:1]"),
    fact="only the first of the eos_ids stops generation",
    question="Which of [9, 6] stop generation?",
)
known.change(
    "eos-ignored",
    ("token in eos_ids", "False"),
    fact="eos_ids is ignored",
    question="What should happen when the model generates token 8, and eos_ids is (8,)?",
)
known.change(
    "zero-ends",
    ("if token in eos_ids", "if not token or token in eos_ids"),
    fact="token 0 stops generation although it is not in eos_ids",
    question="Is 0 true or false in Python, and is it a token?",
)
known.change(
    "one-too-many",
    ("limit = max_tokens if", "max_tokens += 1\nlimit = max_tokens if"),
    fact="one token more than max_tokens is yielded",
    question="How many tokens should max_tokens=0 yield?",
)
known.change(
    "one-too-few",
    ("range(limit)", "range(limit - 1)"),
    fact="one token fewer than max_tokens is yielded",
    question="How many tokens should max_tokens=1 yield?",
)
known.change(
    "prompt-counted",
    ("limit = max_tokens if", "max_tokens -= len(prompt)\nlimit = max_tokens if"),
    fact="the prompt's tokens count towards max_tokens",
    question="With a prompt of 3 tokens and max_tokens=6, how many should be yielded?",
)
known.change(
    "context-ignored",
    (" if context_length is None else min(max_tokens, context_length - len(prompt))", ""),
    fact="generation continues past the context length",
    question="The context length is 5. How many tokens may follow a prompt of 2?",
)
known.change(
    "context-without-prompt",
    ("context_length - len(prompt))", "context_length)"),
    fact="only the generated tokens count towards the context length, not the prompt",
    question="The context length is 5. How many tokens may follow a prompt of 2?",
)
known.change(
    "sampler-gets-one-list",
    ("sampler(logits, [tokens])", "sampler(logits, tokens)"),
    fact="the sampler receives the tokens as one list, not as a list of rows",
    question="The sampler indexes the history by row. What is its row 0?",
)
known.change(
    "first-position",
    ("[:, -1]", "[:, 0]"),
    fact="the next token is sampled from the first position's logits",
    question="Which position's logits predict the token after the last one?",
)
known.change(
    "prompts-last-position",
    ("for _ in range(limit):", "last = len(tokens) - 1\nfor _ in range(limit):"),
    ("[:, -1]", "[:, last]"),
    fact="the next token is always sampled at the position of the prompt's last token",
    question="Which position's logits predict the token after the newest one?",
)
known.change(
    "last-token-only",
    ("mx.array([tokens])", "mx.array([tokens[-1:]])"),
    fact="the model receives only the newest token, and none of the earlier ones",
    question="How does the model learn about the earlier tokens?",
)
known.change(
    "prompt-yielded",
    ("for _ in range(limit):", "yield from tokens\nfor _ in range(limit):"),
    fact="the prompt's tokens are yielded before the new ones",
    question="Which tokens belong to the continuation?",
)
known.change(
    "prompt-changed",
    ("list(prompt)", "prompt"),
    fact="the new tokens are appended to the caller's prompt",
    question="What is in `prompt` after the call?",
)
known.change(
    "logits-not-float32",
    (".astype(mx.float32)", ""),
    fact="the sampler receives the logits in the model's dtype",
    question="Which dtype does the docstring promise to the sampler?",
)
known.change(
    "sampler-without-prompt",
    ("for _ in range(limit):", "first = len(tokens)\nfor _ in range(limit):"),
    ("sampler(logits, [tokens])", "sampler(logits, [tokens[first:]])"),
    fact="the sampler receives only the new tokens, not the prompt's",
    question="Which tokens does a repetition penalty look at?",
)
known.change(
    "sampler-gets-prompt-only",
    ("for _ in range(limit):", "first = len(tokens)\nfor _ in range(limit):"),
    ("sampler(logits, [tokens])", "sampler(logits, [tokens[:first]])"),
    fact="the sampler receives only the prompt's tokens, not the new ones",
    question="Which tokens does a repetition penalty look at?",
)
known.change(
    "refused-late",
    ("return _continue(", "yield from _continue("),
    fact="an invalid prompt raises at the first token instead of at the call",
    question="When does the body of a function that contains `yield` start to run?",
)
known.change(
    "all-at-once",
    ("return _continue(", "return (lambda *given: iter(list(_continue(*given))))("),
    fact="all tokens are computed before the first one is yielded",
    question="How many times has the model been called when the first token is yielded?",
)
known.change(
    "sampler-ignored",
    ("sampler(logits, [tokens])", "greedy(logits, [tokens])"),
    fact="the argmax is taken, and the sampler is ignored",
    question="Which argument chooses the next token?",
)
known.change(
    "context-one-short",
    ("context_length - len(prompt))", "context_length - len(prompt) - 1)"),
    fact="generation stops one token before the context length",
    question="The context length is 5. How many tokens may follow a prompt of 2?",
)
known.change(
    "full-prompt-refused",
    ("len(prompt) > context_length", "len(prompt) >= context_length"),
    fact="a prompt as long as the context length is rejected",
    question="The context length is 5. Can the model read a prompt of 5?",
)
known.change(
    "logits-of-all-positions",
    ("[:, -1].astype(mx.float32)", ".astype(mx.float32)"),
    fact="the sampler receives the logits of all positions, N x L x V",
    question="How many rows of logits should the sampler receive?",
)

known.change(
    "one-at-least",
    ("range(limit)", "range(max(limit, 1))"),
    fact="one token is yielded even when max_tokens or the context length allows none",
    question="How many tokens should max_tokens=0 yield?",
)
known.change(
    "context-checked-after-a-token",
    ("min(max_tokens, context_length - len(prompt))", "min(max_tokens, max(context_length - len(prompt), 1))"),
    fact="the context length is checked only after a token, so a prompt that fills the context gets one more",
    question="The context length is 3. How many tokens may follow a prompt of 3?",
)
known.change(
    "max-tokens-checked-after-a-token",
    ("limit = max_tokens if", "max_tokens = max(max_tokens, 1)\nlimit = max_tokens if"),
    fact="max_tokens is checked only after a token, so one is yielded with max_tokens=0",
    question="How many tokens does your loop yield before it first compares their number with max_tokens?",
)
known.change(
    "context-one-too-many",
    ("context_length - len(prompt))", "context_length - len(prompt) + 1)"),
    fact="generation continues for one token past the context length",
    question="The context length is 5. How many tokens may follow a prompt of 2?",
)
known.change(
    "sampler-gets-newest-only",
    ("sampler(logits, [tokens])", "sampler(logits, [tokens[-1:]])"),
    fact="the sampler receives only the newest token",
    question="Which tokens does a repetition penalty look at?",
)


@known.accepted("in-steps")
def in_steps(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    if not prompt or (context_length is not None and len(prompt) > context_length):
        raise ValueError

    def following():
        tokens = list(prompt)
        most = len(tokens) + max_tokens
        while len(tokens) < (most if context_length is None else min(most, context_length)):
            logits = model(mx.array([tokens]))
            tokens.append(sampler(logits[:, -1].astype(mx.float32), [tokens]).item())
            if tokens[-1] in eos_ids:
                return
            yield tokens[-1]

    return following()


@known.accepted("recursion-free-closure")
def inner_function(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    if len(prompt) == 0:
        raise ValueError("empty")
    if context_length is not None and context_length < len(prompt):
        raise ValueError("too long")
    history = mx.array(prompt, dtype=mx.uint32)[None]

    def following():
        nonlocal history
        produced = 0
        while produced < max_tokens and (context_length is None or history.shape[1] < context_length):
            logits = model(history)[0, -1:, :].astype(mx.float32)
            token = sampler(logits, history.tolist())
            if int(token[0]) in eos_ids:
                break
            yield int(token[0])
            produced += 1
            history = mx.concatenate([history, token.astype(mx.uint32)[None]], axis=1)

    return following()

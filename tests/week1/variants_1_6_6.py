"""Known programs of task 1.6.6, generating tokens."""

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
    fact="the token that ends the text is yielded too",
    question="Should a reader see <|im_end|>?",
)
known.change(
    "first-eos-only",
    ("token in eos_ids", "token in list(eos_ids)[:1]"),
    fact="only the first of the eos_ids ends the text",
    question="Which of [9, 6] end the text?",
)
known.change(
    "eos-ignored",
    ("token in eos_ids", "False"),
    fact="no token ends the text",
    question="What should happen when the model says the token 8, and eos_ids is (8,)?",
)
known.change(
    "zero-ends",
    ("if token in eos_ids", "if not token or token in eos_ids"),
    fact="token 0 ends the text although it is not one of the eos_ids",
    question="Is 0 true or false in Python, and is it a token?",
)
known.change(
    "one-too-many",
    ("range(room)", "range(room + 1)"),
    fact="one token more than max_tokens is yielded",
    question="How many tokens should max_tokens=0 give?",
)
known.change(
    "one-too-few",
    ("range(room)", "range(room - 1)"),
    fact="one token less than max_tokens is yielded",
    question="How many tokens should max_tokens=1 give?",
)
known.change(
    "prompt-counted",
    ("room = max_tokens if", "max_tokens -= len(prompt)\nroom = max_tokens if"),
    fact="the prompt's tokens count towards max_tokens",
    question="With a prompt of 3 tokens and max_tokens=6, how many should be yielded?",
)
known.change(
    "context-ignored",
    (" if context_length is None else min(max_tokens, context_length - len(prompt))", ""),
    fact="the text goes on when the context length is reached",
    question="The model takes 5 tokens. How many may follow a prompt of 2?",
)
known.change(
    "context-without-prompt",
    ("context_length - len(prompt))", "context_length)"),
    fact="only the continuation counts towards the context length, and not the prompt",
    question="The model takes 5 tokens. How many may follow a prompt of 2?",
)
known.change(
    "first-position",
    ("[:, -1]", "[:, 0]"),
    fact="the next token is chosen from the first position's logits",
    question="Which position's logits say what follows the last token?",
)
known.change(
    "prompts-last-position",
    ("for _ in range(room):", "last = len(tokens) - 1\nfor _ in range(room):"),
    ("[:, -1]", "[:, last]"),
    fact="the next token is always chosen from the position of the prompt's last token",
    question="Where in the logits stands what follows the newest token?",
)
known.change(
    "last-token-only",
    ("mx.array([tokens])", "mx.array([tokens[-1:]])"),
    fact="the model is given only the newest token, and not those before it",
    question="What does the model need in order to know what came before?",
)
known.change(
    "prompt-yielded",
    ("for _ in range(room):", "yield from tokens\nfor _ in range(room):"),
    fact="the prompt's tokens are yielded before the new ones",
    question="Which tokens are the continuation?",
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
    fact="the sampler is given the logits in the model's dtype",
    question="Which dtype does the docstring promise to the sampler?",
)
known.change(
    "sampler-without-prompt",
    ("for _ in range(room):", "first = len(tokens)\nfor _ in range(room):"),
    ("sampler(logits, [tokens])", "sampler(logits, [tokens[first:]])"),
    fact="the sampler is told the new tokens only, and not the prompt's",
    question="Which tokens does a penalty against repetition look at?",
)
known.change(
    "sampler-told-the-prompt",
    ("for _ in range(room):", "first = len(tokens)\nfor _ in range(room):"),
    ("sampler(logits, [tokens])", "sampler(logits, [tokens[:first]])"),
    fact="the sampler is told the prompt's tokens only, and not the new ones",
    question="Which tokens does a penalty against repetition look at?",
)
known.change(
    "refused-late",
    ("return _continue(", "yield from _continue("),
    fact="a prompt that cannot be continued is refused when the first token is asked for, not at the call",
    question="When does the body of a function that contains `yield` begin to run?",
)
known.change(
    "all-at-once",
    ("return _continue(", "return (lambda *given: iter(list(_continue(*given))))("),
    fact="all tokens are computed before the first one is yielded",
    question="How often has the model been called when the first token comes?",
)
known.change(
    "sampler-ignored",
    ("sampler(logits, [tokens])", "greedy(logits, [tokens])"),
    fact="the most likely token is taken, whatever the sampler says",
    question="Who chooses the token?",
)
known.change(
    "context-one-short",
    ("context_length - len(prompt))", "context_length - len(prompt) - 1)"),
    fact="the text ends one token before the context length is reached",
    question="The model takes 5 tokens. How many may follow a prompt of 2?",
)
known.change(
    "full-prompt-refused",
    ("len(prompt) > context_length", "len(prompt) >= context_length"),
    fact="a prompt as long as the context is refused",
    question="The model takes 5 tokens. Can it read a prompt of 5?",
)
known.change(
    "logits-of-all-positions",
    ("[:, -1].astype(mx.float32)", ".astype(mx.float32)"),
    fact="the sampler is given the logits of all positions, N x L x V",
    question="How many rows of logits should the sampler choose from?",
)

known.change(
    "one-at-least",
    ("range(room)", "range(max(room, 1))"),
    fact="one token is yielded even where there is room for none",
    question="How many tokens should max_tokens=0 give?",
)
known.change(
    "context-one-too-many",
    ("context_length - len(prompt))", "context_length - len(prompt) + 1)"),
    fact="the text goes on for one token after the context length is reached",
    question="The model takes 5 tokens. How many may follow a prompt of 2?",
)
known.change(
    "sampler-told-the-newest",
    ("sampler(logits, [tokens])", "sampler(logits, [tokens[-1:]])"),
    fact="the sampler is told the newest token only",
    question="Which tokens does a penalty against repetition look at?",
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

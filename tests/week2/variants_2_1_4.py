"""Known programs of task 2.1.4, generating with a cache."""

import mlx.core as mx
from tests.week1.text_probes import add_up, count_up, growth, numbers, refused_when, sampled, taken
from tests.week2.in_parts import Notes, Reader
from tiny_llm_solution.generate import greedy

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.1.4")


def told(program, reader, prompt, max_tokens, **options):
    return numbers(taken(program(reader, prompt, max_tokens, **options)))


def calls(program, follow, *texts):
    """What comes of prompts, and what the model is given, call after call."""
    reader = Reader(follow)
    return *(told(program, reader, *text) for text in texts), *map(numbers, reader.seen)


known.probe_table(
    cached_text=lambda program: tuple(
        told(program, Reader(add_up), prompt, n) for prompt, n in (([3, 1, 4], 6), ([2], 5), ([5, 5], 0))
    ),
    calls=lambda program: calls(program, add_up, ([3, 1, 4], 4)),
    one_token=lambda program: calls(program, count_up, ([7], 1)),
    eos=lambda program: tuple(told(program, Reader(count_up), [5, 3], 9, eos_ids=ids) for ids in ((8,), [9, 6], (4,))),
    context=lambda program: tuple(told(program, Reader(count_up), [5, 3], 9, context_length=n) for n in (2, 3, 5)),
    refused=lambda program: refused_when(
        lambda prompt, most: program(Reader(count_up), prompt, 3, context_length=most), ([], None), ([1, 2, 3], 2)
    ),
    two_texts=lambda program: calls(program, add_up, ([3, 1], 3), ([2], 3)),
)
known.probe_table(
    mx.float16,
    sampler=lambda program: sampled(
        lambda sampler: program(Reader(add_up, dtype=mx.float16), [3, 5], 3, sampler=sampler)
    ),
)


@known.probe()
def cached_lazy(program):
    reader = Reader(count_up)
    return growth(program(reader, [3], 4), reader.seen)


@known.sized("128 tokens, by a model that looks only at the last one")
def sized(program):
    follows = normals(1)(256, 256)

    class LastOnly:
        def new_caches(self):
            return [Notes()]

        def __call__(self, tokens, caches):
            caches[0].tokens += tokens[0].tolist()
            return follows[tokens[:, -1:]]

    return lambda: list(program(LastOnly(), [0], 128))


known.change(
    "all-again",
    ("tokens[:, caches[0].offset :]", "tokens"),
    fact="the caches are given all tokens again in every call",
    question="What is in the caches already, when the second token is to be written?",
)
known.change(
    "newest-only",
    ("tokens[:, caches[0].offset :]", "tokens[:, -1:]"),
    fact="only the last token of the prompt is read",
    question="How does the model learn of the prompt's first token?",
)
known.change(
    "new-caches-for-every-token",
    ("tokens[:, caches[0].offset :], caches", "tokens, model.new_caches()"),
    fact="every call has new caches and reads all tokens again: the text is right, and nothing is saved",
    question="How long does a cache of yours live?",
)
known.change(
    "new-caches-for-the-newest",
    ("[:, caches[0].offset :], caches", " if tokens.shape[1] == len(prompt) else tokens[:, -1:], model.new_caches()"),
    fact="the new token is read with new caches, which know nothing of the text",
    question="How long does a cache of yours live?",
)
known.change(
    "prompt-s-last-token-twice",
    ("caches = model.new_caches()", "caches = model.new_caches()\nif prompt:\n    model(mx.array([prompt]), caches)"),
    ("tokens[:, caches[0].offset :]", "tokens[:, -1:]"),
    fact="the prompt is read, and then its last token once more",
    question="Which logits say what follows the prompt? Who gave them to you already?",
)
known.change(
    "prompt-in-two-calls",
    ("model.new_caches()", "model.new_caches()\nif len(prompt) > 1:\n    model(mx.array([prompt[:-1]]), caches)"),
    fact="the prompt is read in two calls, the last of its tokens by itself",
    question="What does the first call of the model get, according to the docstring?",
)
known.change(
    "prompt-one-by-one",
    (
        "return model(tokens[:, caches[0].offset :], caches)",
        "return [model(tokens[:, i : i + 1], caches) for i in range(caches[0].offset, tokens.shape[1])][-1]",
    ),
    fact="the prompt is read one token at a time",
    question="The weights are loaded for every call. How many calls do 100 tokens of a prompt need?",
)
known.change(
    "chosen-token-unread",
    ("tokens[:, caches[0].offset :]", "tokens[:, : len(prompt)][:, min(caches[0].offset, len(prompt) - 1) :]"),
    fact="the model is given the last token of the prompt again and again, and never what was chosen",
    question="What does the model read in its third call?",
)
known.change(
    "one-token-behind",
    ("tokens[:, caches[0].offset :]", "tokens[:, max(0, caches[0].offset - 1) : max(len(prompt), caches[0].offset)]"),
    fact="each call after the first gets the token before the newest",
    question="What does the model read in its second call: the token that was just chosen, or the one before it?",
)
known.change(
    "caches-of-another-text",
    ("caches = model.new_caches()", 'caches = vars(model).setdefault("kept", model.new_caches())'),
    fact="the caches of an earlier text are used again, with all that is in them",
    question="Two texts are asked for, one after the other. What does the second know of the first?",
)
known.change(
    "eos-left-out",
    ("eos_ids=eos_ids, ", ""),
    fact="no token ends the text",
    question="Which of your options does generate_tokens hear of?",
)
known.change(
    "context-left-out",
    ("context_length=context_length, ", ""),
    fact="the text goes on when the context length is reached",
    question="Which of your options does generate_tokens hear of?",
)
known.change(
    "sampler-left-out",
    (", sampler=sampler", ""),
    fact="the most likely token is taken, whatever the sampler says",
    question="Who chooses the token?",
)
known.change(
    "refused-late",
    ("return generate_tokens(", "yield from generate_tokens("),
    fact="a prompt that cannot be continued is refused when the first token is asked for, not at the call",
    question="When does the body of a function that contains `yield` begin to run?",
)
known.change(
    "all-at-once",
    ("return generate_tokens(", "return (lambda *args, **named: iter(list(generate_tokens(*args, **named))))("),
    fact="all tokens are computed before the first one is yielded",
    question="How often has the model been called when the first token comes?",
)


@known.accepted("loop")
def loop(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    if not prompt or (context_length is not None and len(prompt) > context_length):
        raise ValueError(f"a prompt of {len(prompt)} tokens")
    room = max_tokens if context_length is None else min(max_tokens, context_length - len(prompt))

    def following(tokens):
        caches, fresh = model.new_caches(), tokens
        for _ in range(room):
            logits = model(mx.array([fresh]), caches)[:, -1].astype(mx.float32)
            fresh = sampler(logits, [tokens]).tolist()
            if fresh[0] in eos_ids:
                break
            yield fresh[0]
            tokens = tokens + fresh

    return following(list(prompt))


@known.wrong(
    "one-call-ahead",
    fact="the next token is computed before the one that is known is yielded",
    question="How often has the model been called when the first token comes?",
)
def one_call_ahead(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    ahead = loop(model, prompt, max_tokens, eos_ids=eos_ids, context_length=context_length, sampler=sampler)

    def following():
        known_token = next(ahead, None)
        while known_token is not None:
            token, known_token = known_token, next(ahead, None)
            yield token

    return following()


@known.wrong(
    "one-call-too-many",
    fact="the last token is read as well, though nobody asks what follows it",
    question="How many calls of the model do four tokens need?",
)
def one_call_too_many(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    """The prompt is read for itself, and then each token, also the last."""
    if not prompt or (context_length is not None and len(prompt) > context_length):
        raise ValueError(f"a prompt of {len(prompt)} tokens")
    room = max_tokens if context_length is None else min(max_tokens, context_length - len(prompt))

    def following(tokens):
        caches = model.new_caches()
        logits = model(mx.array([tokens]), caches)
        for _ in range(room):
            token = sampler(logits[:, -1].astype(mx.float32), [tokens]).item()
            if token in eos_ids:
                break
            yield token
            tokens = [*tokens, token]
            logits = model(mx.array([[token]]), caches)

    return following(list(prompt))


@known.accepted("two-functions-in-one")
def first_and_others(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    if len(prompt) == 0:
        raise ValueError("empty")
    if context_length is not None and context_length < len(prompt):
        raise ValueError("too long")
    history, caches = list(prompt), model.new_caches()

    def following():
        new = mx.array([history])
        while len(history) - len(prompt) < max_tokens and (context_length is None or len(history) < context_length):
            token = sampler(model(new, caches)[0, -1:].astype(mx.float32), [list(history)])
            if int(token[0]) in eos_ids:
                return
            yield int(token[0])
            history.append(int(token[0]))
            new = token[None]

    return following()

"""Reference variants of task 2.1.4, generating with a cache."""

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
    """Return the tokens generated for prompts, the model's inputs of each call, and the count of unneeded logits."""
    reader = Reader(follow)
    return *(told(program, reader, *text) for text in texts), *map(numbers, reader.seen), numbers([reader.unneeded])


known.probe_table(
    cached_text=lambda program: tuple(
        told(program, Reader(add_up), prompt, n) for prompt, n in (([3, 1, 4], 6), ([2], 5), ([5, 5], 0))
    ),
    calls=lambda program: calls(program, add_up, ([3, 1, 4], 4)),
    one_token=lambda program: calls(program, count_up, ([7], 1)),
    eos=lambda program: tuple(told(program, Reader(count_up), [5, 3], 9, eos_ids=ids) for ids in ((8,), [9, 6], (4,))),
    eos_in_the_prompt=lambda program: tuple(
        told(program, Reader(count_up), prompt, 4, eos_ids=(5,)) for prompt in ([5, 3], [3, 5])
    ),
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
    fact="every call passes all tokens to the caches again",
    question="What is already in the caches when the second new token is computed?",
)
known.change(
    "newest-only",
    ("tokens[:, caches[0].offset :]", "tokens[:, -1:]"),
    fact="the prefill contains only the last token of the prompt",
    question="How does the model learn about the prompt's first token?",
)
known.change(
    "new-caches-for-every-token",
    ("tokens[:, caches[0].offset :], caches", "tokens, model.new_caches()"),
    fact="every call creates new caches and recomputes all tokens: the output is correct, but nothing is saved",
    question="What is the lifetime of your caches?",
)
known.change(
    "new-caches-for-the-newest",
    ("[:, caches[0].offset :], caches", " if tokens.shape[1] == len(prompt) else tokens[:, -1:], model.new_caches()"),
    fact="each new token gets new, empty caches",
    question="What is the lifetime of your caches?",
)
known.change(
    "prompt-s-last-token-twice",
    ("caches = model.new_caches()", "caches = model.new_caches()\nif prompt:\n    model(mx.array([prompt]), caches)"),
    ("tokens[:, caches[0].offset :]", "tokens[:, -1:]"),
    fact="the prompt's last token is computed twice",
    question="Which logits predict the token after the prompt, and which call has returned them already?",
)
known.change(
    "prompt-in-two-calls",
    ("model.new_caches()", "model.new_caches()\nif len(prompt) > 1:\n    model(mx.array([prompt[:-1]]), caches)"),
    fact="the prompt is split into two calls, with its last token alone in the second",
    question="What does the first call of the model receive, according to the docstring?",
)
known.change(
    "logits-of-all-positions",
    ("offset :], caches)", "offset :], caches, all_positions=True)"),
    fact="the model computes logits for every position of the prompt",
    question="Which of the prompt's logits choose the next token, and how many does your call request?",
)
known.change(
    "prompt-one-by-one",
    (
        "return model(tokens[:, caches[0].offset :], caches)",
        "return [model(tokens[:, i : i + 1], caches) for i in range(caches[0].offset, tokens.shape[1])][-1]",
    ),
    fact="the prompt is prefilled one token at a time",
    question="Every call reads all the weights. How many calls do 100 prompt tokens need?",
)
known.change(
    "chosen-token-unread",
    ("tokens[:, caches[0].offset :]", "tokens[:, : len(prompt)][:, min(caches[0].offset, len(prompt) - 1) :]"),
    fact="every call gets the last token of the prompt, and never a sampled one",
    question="What does the model receive in its third call?",
)
known.change(
    "second-newest-token",
    ("tokens[:, caches[0].offset :]", "tokens[:, max(0, caches[0].offset - 1) : max(len(prompt), caches[0].offset)]"),
    fact="each call after the first receives the second-newest token",
    question="What does the model receive in its second call: the token just sampled, or the one before it?",
)
known.change(
    "caches-of-another-text",
    ("caches = model.new_caches()", 'caches = vars(model).setdefault("kept", model.new_caches())'),
    fact="the caches of an earlier request are reused with their contents",
    question="Two requests run one after the other. What does the second know of the first?",
)
known.change(
    "eos-left-out",
    ("eos_ids=eos_ids, ", ""),
    fact="eos_ids is not passed to generate_tokens",
    question="Which of your options do you pass to generate_tokens?",
)
known.change(
    "ended-by-the-prompt",
    ("return generate_tokens(", "if prompt and prompt[-1] in eos_ids:\n    return iter(())\nreturn generate_tokens("),
    fact="nothing is generated after a prompt whose last token is in eos_ids",
    question="A chat's prompt ends with the token that ended the last answer. What do you compare with eos_ids?",
)
known.change(
    "context-left-out",
    ("context_length=context_length, ", ""),
    fact="generation continues past the context length",
    question="Which of your options do you pass to generate_tokens?",
)
known.change(
    "sampler-left-out",
    (", sampler=sampler", ""),
    fact="the argmax is taken, and the sampler is ignored",
    question="Which argument chooses the next token?",
)
known.change(
    "sampler-without-the-prompt",
    (", sampler=sampler", ", sampler=lambda logits, tokens: sampler(logits, [tokens[0][len(prompt) :]])"),
    fact="the sampler gets only the generated tokens, without those of the prompt",
    question="A repetition penalty is on. Should it apply to a word that the prompt contains?",
)
known.change(
    "refused-late",
    ("return generate_tokens(", "yield from generate_tokens("),
    fact="an invalid prompt raises at the first token instead of at the call",
    question="When does the body of a function that contains `yield` start to run?",
)
known.change(
    "all-at-once",
    ("return generate_tokens(", "return (lambda *args, **named: iter(list(generate_tokens(*args, **named))))("),
    fact="all tokens are computed before the first one is yielded",
    question="How many times has the model been called when the first token is yielded?",
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
    fact="the next token is computed before the current one is yielded",
    question="How many times has the model been called when the first token is yielded?",
)
def one_call_ahead(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    ahead = loop(model, prompt, max_tokens, eos_ids=eos_ids, context_length=context_length, sampler=sampler)

    def following():
        known_token = next(ahead, None)
        while known_token is not None:
            token, known_token = known_token, next(ahead, None)
            yield token

    return following()


def to_the_end(model, prompt, max_tokens, eos_ids, context_length, sampler, first_calls):
    """Prefill by these calls, then pass each token to the model, including the last."""
    if not prompt or (context_length is not None and len(prompt) > context_length):
        raise ValueError(f"a prompt of {len(prompt)} tokens")
    room = max_tokens if context_length is None else min(max_tokens, context_length - len(prompt))

    def following(tokens):
        caches = model.new_caches()
        for call in first_calls:
            logits = model(mx.array([call]), caches)
        for _ in range(room):
            token = sampler(logits[:, -1].astype(mx.float32), [tokens]).item()
            if token in eos_ids:
                break
            yield token
            tokens = [*tokens, token]
            logits = model(mx.array([[token]]), caches)

    return following(list(prompt))


@known.wrong(
    "one-call-too-many",
    fact="the last token is also passed to the model, although its logits are never used",
    question="How many model calls do four tokens need?",
)
def one_call_too_many(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    return to_the_end(model, prompt, max_tokens, eos_ids, context_length, sampler, [prompt])


@known.wrong(
    "one-by-one-to-the-end",
    fact="each call gets one token, also in the prefill, and the last one's logits are never used",
    question="How many model calls do a prompt of 100 tokens and an answer of 10 need?",
)
def one_by_one_to_the_end(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    return to_the_end(model, prompt, max_tokens, eos_ids, context_length, sampler, [[token] for token in prompt])


known.together("prompt-one-by-one", "one-call-too-many", makes="one-by-one-to-the-end")


@known.wrong(
    "logits-in-the-model's-dtype",
    fact="the sampler gets the logits in the model's dtype",
    question="In which dtype does generate_tokens pass the logits to the sampler?",
)
def logits_as_they_are(model, prompt, max_tokens, *, eos_ids=(), context_length=None, sampler=greedy):
    if not prompt or (context_length is not None and len(prompt) > context_length):
        raise ValueError(f"a prompt of {len(prompt)} tokens")
    room = max_tokens if context_length is None else min(max_tokens, context_length - len(prompt))

    def following(tokens):
        caches, fresh = model.new_caches(), tokens
        for _ in range(room):
            fresh = sampler(model(mx.array([fresh]), caches)[:, -1], [tokens]).tolist()
            if fresh[0] in eos_ids:
                break
            yield fresh[0]
            tokens = tokens + fresh

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

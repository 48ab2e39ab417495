"""Reference variants of task 1.6.7, generating text."""

import itertools

import mlx.core as mx
from tests.week1.text_probes import Model, numbers, pieces, refused_when, small, taken
from tiny_llm_solution.generate import generate_tokens, simple_generate
from tiny_llm_solution.tokenizer import ByteLevelBPE, StreamingDetokenizer

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.6.7")


def ids_of(text):
    return small(ByteLevelBPE).encode(text)


SCRIPT = [*ids_of(" that \U0001f415 is"), 301, *ids_of("d\u00e9"), 300, *ids_of("a\u72d7")[:2]]


def told(program, number, prompt="that is", script=SCRIPT, **options):
    bpe = small(program)
    before = len(bpe.encode(prompt))
    model = Model(lambda ids: script[min(max(0, len(ids) - before), len(script) - 1)], 310)
    return pieces(filter(None, taken(program(model, bpe, prompt, number, **options), 60)))


known.probe_table(
    plain=lambda program: (told(program, len(SCRIPT)), told(program, 4), told(program, 0)),
    sampler=lambda program: told(program, 3, sampler=lambda logits, tokens: mx.array([ids_of("dog")[0]])),
    ends=lambda program: (
        told(program, 40, eos_ids=[300, 301]),
        told(program, 40, script=[*SCRIPT[:7], 300], eos_ids=[301, 300]),
        told(program, 20, context_length=len(ids_of("that is")) + 3),
    ),
    refused=lambda program: refused_when(
        lambda prompt, most: program(Model(lambda ids: 5, 310), small(program), prompt, 3, context_length=most),
        ("", None),
        ("that is a dog", 2),
    ),
)


@known.probe()
def text_prompt(program):
    """Return the model's inputs for a prompt with a special token."""
    bpe, model = small(program), Model(lambda ids: 5, 310)
    list(program(model, bpe, "<|end|>that is", 2))
    return numbers(model.lengths)


@known.probe()
def text_half_a_token(program):
    """Return the pieces of two tokens: a space and the first half of a character, and its second half."""
    vocab = small(ByteLevelBPE).vocab
    return told(program, 2, script=[vocab["\u0120\u00c3"], vocab["\u00a9"]])


@known.probe()
def text_lazy(program):
    model, bpe, calls = Model(lambda ids: SCRIPT[len(ids) - 1], 310), small(program), []
    for piece in itertools.islice(program(model, bpe, "a", 8), 40):
        calls += [len(model.lengths)] if piece else []
    return numbers(calls)


@known.sized("128 tokens, by a model that looks only at the last one")
def sized(program):
    bpe, follows = small(program), normals(1)(267, 267)
    return lambda: "".join(program(lambda tokens: follows[tokens], bpe, "that is", 128))


known.change(
    "token-by-token",
    ("detokenizer.add(token)", "detokenizer.tokenizer.decode([token], skip_special_tokens=True)"),
    fact="each token is decoded separately",
    question="What is shown for a character that takes two tokens?",
)
known.change(
    "specials-shown",
    ("StreamingDetokenizer(tokenizer)", "StreamingDetokenizer(tokenizer, skip_special_tokens=False)"),
    fact="special tokens are shown",
    question="Which tokens should the user not see?",
)
known.change(
    "tail-dropped",
    ("detokenizer.finish()", '""'),
    fact="an incomplete character is dropped at the end of generation",
    question="Where do you call finish()?",
)
known.change(
    "all-text-again",
    ("for token in ids:", 'piece = ""\nfor token in ids:'),
    ("piece := detokenizer.add(token)", "piece := piece + detokenizer.add(token)"),
    ("piece := detokenizer.finish()", "piece := piece + detokenizer.finish()"),
    fact="each piece is the whole text so far",
    question="What should the pieces give when they are concatenated?",
)
known.change(
    "all-at-once",
    ("_stream(ids, StreamingDetokenizer(tokenizer))", 'iter(["".join(_stream(ids, StreamingDetokenizer(tokenizer)))])'),
    fact="the whole text comes in one piece at the end",
    question="When should the user see the first word?",
)


known.change(
    "answer-first",
    ("_stream(ids, StreamingDetokenizer(tokenizer))", "iter([*_stream(ids, StreamingDetokenizer(tokenizer))])"),
    fact="the whole answer is generated before its first piece is yielded",
    question="How often has the model been called when the user sees the first word?",
)


def held_back(flush):
    """Return a program that decodes all tokens again and waits while the text ends in half a character."""

    def program(model, tokenizer, prompt, max_tokens, **options):
        ids = generate_tokens(model, tokenizer.encode(prompt), max_tokens, **options)

        def run():
            so_far, text, shown = [], "", ""
            for token in ids:
                so_far.append(token)
                text = tokenizer.decode(so_far, skip_special_tokens=True)
                if not text.endswith("\ufffd"):
                    yield text[len(shown) :]
                    shown = text
            if flush:
                yield text[len(shown) :]

        return run()

    return program


known.wrong(
    "whole-token-held-back",
    fact="a token that ends in half a character is held back as a whole, with the characters that it completes",
    question="A token is a space and the first half of an emoji. Which part of it can be shown at once?",
)(held_back(flush=True))
known.wrong(
    "held-back-and-dropped",
    fact="text is held back while it ends in half a character, and what is held back at the end is never yielded",
    question="The last token is the first half of an emoji. Which piece does the user get for it?",
)(held_back(flush=False))


@known.wrong(
    "prompt-shown",
    fact="the prompt is shown before the answer",
    question="Is the prompt part of the continuation?",
)
def prompt_shown(model, tokenizer, prompt, max_tokens, **options):
    return itertools.chain([prompt], simple_generate(model, tokenizer, prompt, max_tokens, **options))


known.change(
    "eos-not-passed",
    ("eos_ids=eos_ids, ", ""),
    fact="eos_ids is not passed to generate_tokens",
    question="Which of your arguments do you pass to generate_tokens?",
)
known.change(
    "context-not-passed",
    ("context_length=context_length, ", ""),
    fact="context_length is not passed to generate_tokens",
    question="Which of your arguments do you pass to generate_tokens?",
)
known.change(
    "sampler-not-passed",
    (", sampler=sampler", ""),
    fact="the sampler is not passed to generate_tokens",
    question="Which of your arguments do you pass to generate_tokens?",
)
known.change(
    "refused-late",
    ("return _stream(", "yield from _stream("),
    fact="an invalid prompt raises at the first piece instead of at the call",
    question="When does the body of a function that contains `yield` start to run?",
)


@known.accepted("in-steps")
def in_steps(model, tokenizer, prompt, max_tokens, **options):
    ids = generate_tokens(model, tokenizer.encode(prompt), max_tokens, **options)

    def shown(stream):
        yield from filter(None, map(stream.add, ids))
        yield from filter(None, [stream.finish()])

    return shown(StreamingDetokenizer(tokenizer))


@known.accepted("decode-all-again")
def text_by_decoding(model, tokenizer, prompt, max_tokens, **options):
    ids = generate_tokens(model, tokenizer.encode(prompt), max_tokens, **options)

    def run():
        so_far, shown = [], ""
        for token in ids:
            so_far.append(token)
            text = tokenizer.decode(so_far, skip_special_tokens=True).rstrip("\ufffd")
            yield text[len(shown) :]
            shown = text
        yield tokenizer.decode(so_far, skip_special_tokens=True)[len(shown) :]

    return run()

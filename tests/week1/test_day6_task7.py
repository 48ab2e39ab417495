"""Week 1, day 6, task 7: generating text."""

import mlx.core as mx
import pytest
from tests.week1.foretold import Model, drawn, in_turn
from tests.week1.tokenizing import (
    END,
    START,
    STOP,
    TABLES,
    decode_formula,
    encode_formula,
    stream_formula,
    tables,
    words,
)

from tiny_llm import generate, tokenizer
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.texts import again, awkward_texts, same_ids, same_pieces, same_text


def check_text(prompt, script, pieces, max_tokens=20, bpe=None, **options):
    """Check generation with a model that outputs `script`, and then repeats its last token."""
    shown = ", ".join(f"{name} {value}" for name, value in options.items() if name != "sampler")
    case = f"prompt {words(prompt)}, the model generates {script}, max_tokens {max_tokens}" + f", {shown}" * bool(shown)
    ranks, vocab, special, pattern = tables()
    before = encode_formula(prompt, ranks, vocab, special, pattern, "NFC")
    model = Model(lambda t: script[min(max(0, len(t) - len(before)), len(script) - 1)], case, vocab=STOP + 1)
    bpe = bpe or tokenizer.ByteLevelBPE.from_file(TABLES)
    texts = again(lambda: drawn(generate.simple_generate(model, bpe, prompt, max_tokens, **options), case, 200), case)
    for text in texts:
        if not isinstance(text, str):
            fail(Kind.TYPE, f"a piece is {type_words(text)}, expected a str", case)
    same_pieces([text for text in texts if text], pieces, case)
    once = model.seen[: len(model.seen) // 2]
    for i, seen in enumerate(once[: len(script)]):
        same_ids(seen, [*before, *script[:i]], f"what the model is given for token {i} of the continuation; {case}")


def test_task_4_text_five_tokens():
    check_text("That is a", [314, 271, STOP, 615], [" blue", " dog"], eos_ids=[END, STOP])


def test_task_4_text_whole_characters():
    """A dog emoji is two tokens here, and one piece."""
    check_text("That is", [267, 486, 267, 487, END], ["\U0001f415", "\U0001f436"], eos_ids=(END,))


def test_task_4_text_unfinished_character():
    check_text("That is", [258, 267], [" a", "\ufffd"], max_tokens=2)


def test_task_4_text_special_tokens():
    """Special tokens are encoded in the prompt and skipped in the continuation."""
    prompt = "<|im_start|>user\nIs that a dog?<|im_end|>\n<|im_start|>assistant\n"
    check_text(prompt, [START, 615, 281, STOP, 258, END], ["That", " is", " a"], eos_ids=[END])


def test_task_4_text_sweep():
    """Prompts and continuations of every kind."""
    bpe, (ranks, vocab, special, pattern) = tokenizer.ByteLevelBPE.from_file(TABLES), tables()
    texts = [text for text in awkward_texts() if text and len(text.encode()) <= 20]
    for i, text in enumerate([text for text in texts if len(text.encode()) <= 3] + texts[::4]):
        prompt = texts[(i * 11 + 3) % len(texts)]
        script = encode_formula(text, ranks, vocab, special, pattern, "NFC")
        shown = [piece for piece in stream_formula(script) if piece]
        if i % 2:
            check_text(prompt, script, shown, len(script), bpe)
        else:
            check_text(prompt, [*script, END], shown, len(script) + i % 3, bpe, eos_ids=[END])


@pytest.mark.parametrize(
    "script", [[486, 615, 271], [267, 615, 486], [258, 267, END], [267, STOP, 486], [486]], ids=str
)
def test_task_4_text_of_any_tokens(script):
    """The pieces make the decoded answer, even if its bytes are not UTF-8 or it ends inside a character."""
    case = f"prompt 'That', the model generates {script}, <|endoftext|> ends: all pieces joined"
    model = Model(lambda t: [*script, END][min(len(t) - 1, len(script))], case, vocab=STOP + 1)
    bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
    with noted(case):
        pieces = drawn(generate.simple_generate(model, bpe, "That", 9, eos_ids=[END]), case)
    same_text("".join(map(str, pieces)), decode_formula(script, skip=True), case)


def test_task_4_text_two_at_once():
    """Two interleaved generations with one tokenizer: each emoji starts in one token and ends in the next."""
    script, case = [283, 486, 283, 487], "two interleaved generations, each with two emojis of two tokens"
    bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
    with noted(case):
        models = [Model(lambda t: script[(len(t) - 1) % 4], case, vocab=STOP + 1) for _ in range(2)]
        made = [generate.simple_generate(model, bpe, "That", 4) for model in models]
        texts = in_turn(*made, case)
    for pieces in texts:
        same_pieces([piece for piece in pieces if piece], [" ", "\U0001f415", " ", "\U0001f436"], case)


@pytest.mark.parametrize("max_tokens", [0, 1, 3])
def test_task_4_text_length_limit(max_tokens):
    check_text("dog", [615, 281, 258, 314, 271], ["That", " is", " a"][:max_tokens], max_tokens=max_tokens)


def test_task_4_text_context_length():
    check_text("That is", [258, 314, 271, 271], [" a", " blue"], context_length=4)


def test_task_4_text_sampler():
    """A sampler that always returns ` dog`."""
    case = "prompt 'That is', a sampler that always returns ' dog', max_tokens 2"
    model = Model(lambda tokens: 258, case, vocab=STOP + 1)
    with noted(case):
        pieces = drawn(
            generate.simple_generate(
                model,
                tokenizer.ByteLevelBPE.from_file(TABLES),
                "That is",
                2,
                sampler=lambda logits, tokens: mx.array([271]),
            ),
            case,
        )
    same_pieces([piece for piece in pieces if piece], [" dog", " dog"], case)


@pytest.mark.parametrize(
    ("prompt", "options"), [("", {}), ("That is a", {"context_length": 2}), ("dog", {"context_length": 0})], ids=str
)
def test_task_4_text_refused_at_the_call(prompt, options):
    bpe = tokenizer.ByteLevelBPE.from_file(TABLES)
    for max_tokens in (3, 0):
        case = f"prompt {prompt!r}, {options or 'no limit'}, max_tokens {max_tokens}, no text requested yet"
        model = Model(lambda tokens: 258, case, vocab=STOP + 1)
        with raises_value_error(case):
            generate.simple_generate(model, bpe, prompt, max_tokens, **options)


def test_task_4_text_as_soon_as_known():
    """A piece is yielded before the model is called for the next token."""
    script = [615, 267, 486, 281]
    case = f"prompt 'That', the model generates {script}, pieces taken one at a time"
    model = Model(lambda t: script[min(3, len(t) - 1)], case, vocab=STOP + 1)
    with noted(case):
        texts = generate.simple_generate(model, tokenizer.ByteLevelBPE.from_file(TABLES), "That", 4)
        if not hasattr(texts, "__next__"):
            fail(Kind.TYPE, f"got {type_words(texts)}, expected an iterator", case)
        for piece, calls in (("That", 1), ("\U0001f415", 3), (" is", 4)):
            same_text(next((text for text in texts if text), ""), piece, case)
            if len(model.seen) != calls:
                headline = f"when {words(piece)} was yielded, the model had been called {len(model.seen)} times"
                fail(Kind.VALUES, headline, case, f"expected  {calls}", f"got       {len(model.seen)}")

"""Known programs of task 5.5.1, a chat example."""

import mlx.core as mx
from tests.week1.tokenizing import STOP
from tests.week5.chats import TOKENIZER, chatml, conversation, no_newline, thinking, without_end

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.5.1")
FOUR = conversation("Hi!", "Hello, what is it?", "That is a dog.", "It is blue.")
ACCENT = conversation("is e\u0301?", "e\u0301a \u72d7", "\u72d7", "dog e\u0301")
SPACES = conversation("dog", "\n\nblue", "dog\n", " blue \n")


def example(program, messages, template=chatml):
    return tuple(mx.array(part, dtype=mx.int32) for part in program(messages, TOKENIZER, template, STOP))


def last_without_end(messages, generate):
    return chatml(messages, generate).replace("blue.<|im_end|>", "blue.")


known.probe_table(
    one=lambda program: example(program, FOUR[:2]),
    several=lambda program: example(program, FOUR),
    a_question_last=lambda program: example(program, FOUR[:3]),
    an_answer_first=lambda program: example(program, FOUR[1:]),
    system=lambda program: example(program, [{"role": "system", "content": "A dog."}, *FOUR[:2]]),
    accents=lambda program: example(program, ACCENT),
    composed=lambda program: example(program, conversation("is \u00e9?", "\u00e9a \u00e9")),
    spaces=lambda program: example(program, SPACES),
    no_newline=lambda program: example(program, FOUR, no_newline),
    thought=lambda program: example(program, FOUR[:2], thinking),
    end_within=lambda program: example(program, conversation("a<|im_end|>b", "c<|im_end|>d")),
    one_answer_twice=lambda program: example(program, conversation("dog", "dog", "dog", "dog")),
    refused=lambda program: mx.array(
        [
            refusal(lambda: program(FOUR[:1], TOKENIZER, chatml, STOP)),
            refusal(lambda: program(FOUR, TOKENIZER, thinking, STOP)),
            refusal(lambda: program(FOUR[:2], TOKENIZER, without_end, STOP)),
            refusal(lambda: program(FOUR, TOKENIZER, last_without_end, STOP)),
        ]
    ),
)


@known.sized("eight messages, each of 40 characters")
def sized(program):
    messages = conversation(*["That is a blue dog and it is not a bird."] * 8)
    return lambda: example(program, messages)


MARK = "targets[i - 1] = tokens[i]"
known.change(
    "prompt-learned",
    ("for i in own:", "for i in range(stop + 1):"),
    fact="the loss also counts everything before an answer: the prompt and the headers",
    question="Which of these tokens does the model write when it is served?",
)
known.change(
    "users-learned-too",
    (
        'answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]',
        'answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]\n'
        "answers = [*range(len(messages))] if answers else []",
    ),
    ("template(messages[:number], True)", 'template(messages[:number], messages[number]["role"] == "assistant")'),
    fact="all messages count in the loss, the user's, too",
    question="Does the model ever generate a message of role `user`?",
)
known.change(
    "last-answer-alone",
    ("for number in answers:", "for number in answers[-1:]:"),
    fact="only the last answer counts in the loss",
    question="How many of the messages are the assistant's?",
)
known.change(
    "first-answer-alone",
    ("for number in answers:", "for number in answers[:1]:"),
    fact="only the first answer counts in the loss",
    question="How many of the messages are the assistant's?",
)
known.change(
    "not-shifted",
    (MARK, "targets[i] = tokens[i]"),
    fact="each target is the token at its own position instead of the next one",
    question="The model has read the token at position 3. Which token should it predict there?",
)
known.change(
    "end-not-learned",
    ("if 0 < i <= stop:", "if 0 < i < stop:"),
    fact="the token that ends an answer is not a target",
    question="What should the model write after the last word of its answer?",
)
known.change(
    "what-follows-the-end-learned",
    ("if 0 < i <= stop:", "if 0 < i:"),
    fact="what the template adds after the end of an answer is learned, too",
    question="After which token does the server stop? Does the model ever write the next one?",
)
known.change(
    "header-learned",
    ("template(messages[:number], True)", "template(messages[:number], False)"),
    fact="the header of an answer, which the server renders, counts in the loss",
    question="With which of its arguments does the server call the template?",
)
known.change(
    "characters-for-bytes",
    (
        "first, last = _num_bytes(before, tokenizer), _num_bytes(after, tokenizer)",
        "first, last = len(before), len(after)",
    ),
    fact="the border is counted in characters, and the tokens in bytes",
    question="How many characters, and how many bytes, has the text 'd\u00e9j\u00e0'?",
)
known.change(
    "characters-token-by-token",
    (
        "ends.append(ends[-1] + len(tokenizer.token_bytes[token]))",
        'ends.append(ends[-1] + len(tokenizer.token_bytes[token].decode(errors="replace")))',
    ),
    (
        "first, last = _num_bytes(before, tokenizer), _num_bytes(after, tokenizer)",
        "first, last = len(before), len(after)",
    ),
    fact="everything is counted in characters, token by token, although a token may hold a part of a character",
    question="The three bytes of \u72d7 are three tokens here. How many characters has each of them?",
)
known.change(
    "normalized-characters-token-by-token",
    (
        "ends.append(ends[-1] + len(tokenizer.token_bytes[token]))",
        'ends.append(ends[-1] + len(tokenizer.token_bytes[token].decode(errors="replace")))',
    ),
    (
        "first, last = _num_bytes(before, tokenizer), _num_bytes(after, tokenizer)",
        "from unicodedata import normalize\n"
        "first, last = (len(normalize(tokenizer.normalization, text)) for text in (before, after))",
    ),
    fact="everything is counted in characters, token by token, although a token may hold a part of a character",
    question="The three bytes of \u72d7 are three tokens here. How many characters has each of them?",
)
known.change(
    "bytes-before-normalization",
    (
        "first, last = _num_bytes(before, tokenizer), _num_bytes(after, tokenizer)",
        "first, last = len(before.encode()), len(after.encode())",
    ),
    fact="the border is counted in the bytes of the text before normalization",
    question="How many bytes is an `e` with a combining accent, and how many is it after NFC?",
)
known.change(
    "token-across-the-border-learned",
    ("first <= ends[i]", "first < ends[i + 1]"),
    fact="a token that begins before the answer and ends in it is learned",
    question="The prompt ends with a line break and the answer begins with one. Can one token hold both?",
)
known.change(
    "first-end-in-the-answer",
    ("stop = max(", "stop = min("),
    fact="an answer ends with its first end token instead of its last",
    question="An answer quotes <|im_end|>. Where does it end?",
)
known.change(
    "end-of-an-earlier-answer",
    ("for number in answers:", "stop = None\nfor number in answers:"),
    ("default=None)", "default=stop)"),
    fact="an answer without an end token is not refused after one that has one",
    question="What does your program know of the earlier answers when it looks at the next one?",
)
known.change(
    "past-not-compared",
    ("if not (after.startswith(before) and whole.startswith(after)):", "if False:"),
    fact="a template that changes earlier messages is not refused",
    question="What are the borders worth if the text before them has changed?",
)


@known.wrong(
    "message-by-message",
    fact="the prompt and the answer are tokenized one by one, so that tokens across their border are missing",
    question="Is the end of one text, joined to the start of the next one, always two words?",
)
def message_by_message(messages, tokenizer, template, end):
    if not any(message["role"] == "assistant" for message in messages):
        raise ValueError("no answer")
    whole, done = template(messages, False), ""
    tokens, targets = [], []
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, after = template(messages[:number], True), template(messages[: number + 1], False)
        if not (after.startswith(before) and whole.startswith(after)):
            raise ValueError(number)
        prompt, answer = tokenizer.encode(before[len(done) :]), tokenizer.encode(after[len(before) :])
        if end not in answer:
            raise ValueError(number)
        stop = max(i for i, token in enumerate(answer) if token == end)
        tokens += prompt + answer
        targets += [-100] * len(prompt) + answer[: stop + 1] + [-100] * (len(answer) - stop - 1)
        done = after
    rest = tokenizer.encode(whole[len(done) :])
    return tokens + rest, [*(targets + [-100] * len(rest))[1:], -100]


@known.accepted("an owner for each byte")
def by_byte(messages, tokenizer, template, end):
    whole = template(messages, False)
    tokens = tokenizer.encode(whole)
    owned = [0] * sum(len(tokenizer.token_bytes[token]) for token in tokens)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            before, after = template(messages[:number], True), template(messages[: number + 1], False)
            if after[: len(before)] != before or whole[: len(after)] != after:
                raise ValueError(f"message {number} is rendered in two ways")
            sizes = [
                len(b"".join(tokenizer.token_bytes[i] for i in tokenizer.encode(text))) for text in (before, after)
            ]
            owned[sizes[0] : sizes[1]] = [number + 1] * (sizes[1] - sizes[0])
    starts, at = [], 0
    for token in tokens:
        starts.append(at)
        at += len(tokenizer.token_bytes[token])
    owner = [
        owned[start] if len({*owned[start : start + len(tokenizer.token_bytes[token])]}) == 1 else 0
        for start, token in zip(starts, tokens, strict=True)
    ]
    stops = {}
    for i, token in enumerate(tokens):
        if token == end and owner[i]:
            stops[owner[i]] = i
    numbers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    if not numbers or any(number + 1 not in stops for number in numbers):
        raise ValueError(f"an answer of {numbers} has no end")
    mine = [bool(who) and i <= stops[who] for i, who in enumerate(owner)]
    return tokens, [token if own else -100 for token, own in zip(tokens[1:], mine[1:], strict=True)] + [-100]

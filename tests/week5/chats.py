"""Conversations, chat templates and a tokenizer for the tests and known programs of task 5.5.1."""

import functools
import unicodedata
from collections.abc import Iterable

from tests.week1.tokenizing import PIECES, START, STOP, encode_formula, tables

IGNORED = -100


class Tokenizer:
    """Week 1's tables for tests with a slow `encode` of its own: `<|im_start|>` is START, `<|im_end|>` is STOP.

    It has what programs may use of the learner's class, which the annotation names.
    """

    token_bytes = PIECES
    special_tokens = {"<|im_start|>": START, "<|im_end|>": STOP}  # noqa: RUF012  (as the learner's class has it)
    normalization = "NFC"

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text after NFC, in a new list."""
        return [*_encoded(text)]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """Return the text of some ids."""
        skipped = self.special_tokens.values() if skip_special_tokens else ()
        return b"".join(PIECES[token] for token in ids if token not in skipped).decode(errors="replace")


@functools.lru_cache(maxsize=4096)
def _encoded(text: str) -> tuple[int, ...]:
    ranks, vocab, special, pattern = tables()
    return tuple(encode_formula(text, ranks, vocab, special, pattern, "NFC"))


TOKENIZER = Tokenizer()


def chatml(messages, generate):
    """Return Qwen's format, which is the course's model's, too."""
    text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return text + "<|im_start|>assistant\n" * generate


def no_newline(messages, generate):
    """Nothing follows the end token of a message, as in Llama 3's format."""
    text = "".join(f"<|im_start|>{m['role']}\n\n{m['content']}<|im_end|>" for m in messages)
    return "Begin." + text + "<|im_start|>assistant\n\n" * generate


def without_roles(messages, generate):
    """Only contents and end tokens: the prompt of a first answer is empty."""
    return "".join(f"{m['content']}<|im_end|>" for m in messages)


def thinking(messages, generate):
    """Render an empty thought before the last answer, and before no other, as Qwen3's template does."""
    text = ""
    for number, message in enumerate(messages):
        last = message["role"] == "assistant" and number == len(messages) - 1
        thought = "<think>\n\n</think>\n\n" * last
        text += f"<|im_start|>{message['role']}\n{thought}{message['content']}<|im_end|>\n"
    return text + "<|im_start|>assistant\n" * generate


def without_end(messages, generate):
    """Answers end with a line break, and no token says so."""
    return "".join(f"{m['role']}: {m['content']}\n" for m in messages) + "assistant: " * generate


def conversation(*contents: str, first: str = "user") -> list[dict[str, str]]:
    """Return messages of alternating roles."""
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def expected_example(messages, template, head, thought=""):
    """Return tokens and targets of a ChatML-like template, by the owner of each byte.

    `head` is what the template puts between a role and its content; `thought` precedes the last answer.
    """
    text = template(messages, False)
    owned, rest = [], text
    for number, message in enumerate(messages):
        answer = message["role"] == "assistant"
        opening = f"<|im_start|>{message['role']}{head}"
        before, found, rest = rest.partition(opening)
        own = (thought if answer and number == len(messages) - 1 else "") + message["content"] + "<|im_end|>"
        for piece, mine in ((before + found, False), (own, answer)):
            owned += [mine] * len(unicodedata.normalize("NFC", piece).encode())
        rest = rest[len(own) :]
    owned += [False] * len(unicodedata.normalize("NFC", rest).encode())
    tokens = TOKENIZER.encode(text)
    targets, at = [], 0
    for token in tokens:
        end = at + len(PIECES[token])
        targets.append(token if all(owned[at:end]) else IGNORED)
        at = end
    return tokens, [*targets[1:], IGNORED]

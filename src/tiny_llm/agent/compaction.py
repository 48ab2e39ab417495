"""Compaction: a long conversation, with a summary in place of its older turns."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from .model import Answer, Message, Model

Notes = Callable[[list[Message]], str]


def approximate_tokens(message: Message) -> int:
    """Return about how many tokens a message has: one for 4 characters of its JSON."""
    return len(json.dumps(message, ensure_ascii=False)) // 4


def compact(
    messages: Sequence[Message],
    budget: int,
    count: Callable[[Message], int] = approximate_tokens,
    notes: Notes | None = None,
) -> list[Message]:
    """Replace a conversation's older turns by a summary if it has more than `budget` tokens.

    The **head**, all messages up to and including the first one of the user, stays as it is: it has the task. The rest
    consists of **turns**: a message with the results of its calls, which follow it, is one turn. A turn is kept whole
    or replaced whole.

    Which turns are replaced depends on the earlier turns alone, so that the beginning of the compacted conversation
    stays the same from one step to the next, and a server's prefix cache can reuse it. Go through the turns in order.
    At first, none is replaced. Whenever the head, the summary (without notes) and the kept turns up to this one have
    more than `budget` tokens together, replace as many more of the oldest as needed for the kept ones to have at most
    `budget // 2` tokens, but never this turn itself.

    The **summary** is a message of the user between the head and the kept turns, if any turn is replaced. Its content
    has these lines, of which those without an item are left out:

        Summary of 12 earlier messages:
        The user said: Leave dog.py as it is.
        Files changed: a.py, b.py
        Failed: run_command pytest -q: 1 failed, 2 passed [exit code 1]
        Notes: The cat is in b.py.

    - The number of replaced messages.
    - `The user said`: a line for each replaced message of the user, with its whole content.
    - `Files changed`: the targets of the replaced calls in CHANGES that did not fail, each once, in order.
    - `Failed`: a line for each replaced call that failed, with `str(call)` and `call.end`, unless a later replaced call
      has the same name and target: only the last one of these counts. In the order of the calls.
    - `Notes`: what `notes` returns for the replaced messages, such as a summary that a model has written.

    Args:
        messages: the whole conversation, in OpenAI's form; each call has its result. Not changed.
        budget: tokens. The result may have more, if the head, the summary and the last turn do.
        count: returns the tokens of a message.
        notes: called at most once, and only if turns are replaced.

    Returns:
        A new list.
    """
    raise NotImplementedError("7.5.2 Compaction")


def compacting(model: Model, budget: int, notes: Notes | None = None) -> Model:
    """Return a model that is asked with the compacted conversation. The loop's own conversation stays whole.

    Notes are written once for each set of replaced messages, so that the compacted beginning stays the same.
    """
    written = dict[int, str]()

    def remembered(messages: list[Message]) -> str:
        assert notes is not None
        if len(messages) not in written:
            written[len(messages)] = notes(messages)
        return written[len(messages)]

    def ask(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Answer:
        return model(compact(messages, budget, notes=remembered if notes else None), tools)

    return ask

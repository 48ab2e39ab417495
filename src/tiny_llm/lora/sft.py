"""Supervised fine-tuning examples: a conversation in tokens, with targets only where the assistant speaks."""

from collections.abc import Callable

from ..tokenizer import ByteLevelBPE

Message = dict[str, str]  # {"role": "user", "content": "Hi!"}
Template = Callable[[list[Message], bool], str]  # messages, and whether to append the start of an answer


def chat_example(
    messages: list[Message], tokenizer: ByteLevelBPE, template: Template, end: int
) -> tuple[list[int], list[int]]:
    """Convert a conversation to tokens and targets, so that only the assistant's answers count in the loss.

    A message's answer begins where `template(earlier messages, True)` ends, because that text is the prompt to which
    the server generates the answer. It ends with the last token `end` of what the message adds to the conversation.
    What the template adds after that token does not count, and neither does a token that begins before the answer.

    Args:
        messages: the conversation, with one or more messages of role "assistant". It is not changed.
        tokenizer: `encode` converts text to ids. `token_bytes` has each id's bytes: those of a text's ids, in order,
            are the text's, after normalization.
        template: the chat template that the server uses, as a function. With True it appends the start of an answer.
        end: the id of the token that ends an answer.

    Returns:
        Two new lists of one length. tokens: `encode` of the whole conversation, rendered without the start of another
        answer. targets: the next token where that one belongs to an answer, `end` included; otherwise IGNORE, which is
        -100. The last target is IGNORE.

    Raises:
        ValueError: no message is the assistant's; an answer has no token `end`; or the template changes what it has
            rendered when later messages follow, so that the conversation is not the prompt plus the answer. Except for
            the first, the error message states the number of the message, counted from 0.
    """
    raise NotImplementedError("5.5.1 A chat example")

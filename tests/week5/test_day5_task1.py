"""Task 5.5.1, a chat example, checked against the owner of each byte, and against transformers' mask."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.tokenizing import END, STOP, TABLES
from tests.week5.chats import (
    IGNORED,
    TOKENIZER,
    chatml,
    conversation,
    expected_example,
    no_newline,
    thinking,
    without_end,
    without_roles,
)

from tiny_llm import tokenizer
from tiny_llm.lora import sft
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import awkward_texts, same_ids, same_text

TWO = conversation("That is a blue dog.", "Yes, it is!")
FOUR = conversation("Hi!", "Hello, what is it?", "That is a dog.", "It is blue.")
SYSTEM = {"role": "system", "content": "You are a dog."}


def check_example(messages, template, expected, where, bpe=TOKENIZER):
    said = " / ".join(f"{m['role']}: {ascii(m['content'])[1:-1]}" for m in messages)
    case = f"{said if len(said) < 90 else said[:86] + ' ...'}, {where}"
    copies = [dict(message) for message in messages]
    with noted(case):
        result = sft.chat_example(messages, bpe, template, STOP)
    if type(result) is not tuple or len(result) != 2:
        fail(Kind.TYPE, "returned something else than a pair of lists", case, size=len(expected[0]))
    tokens, targets = result
    same_ids(tokens, expected[0], f"{case}, the tokens")
    same_ids(targets, expected[1], f"{case}, the targets", "targets")
    fail_if_different("the messages were changed", copies, messages, case)


def by_chatml(messages, where="Qwen's template"):
    check_example(messages, chatml, expected_example(messages, chatml, "\n"), where)


def test_task_1_chat_one_answer():
    by_chatml(TWO)


def test_task_1_chat_several_answers():
    by_chatml(FOUR)


def test_task_1_chat_with_a_system_message():
    by_chatml([SYSTEM, *FOUR])


def test_task_1_chat_with_a_message_of_another_role():
    """Only the assistant's messages are answers; a tool's result is not."""
    tool = {"role": "tool", "content": "It is a dog."}
    by_chatml([*TWO, tool, {"role": "assistant", "content": "That is a dog."}])


@pytest.mark.parametrize("count", [1, 3])
def test_task_1_chat_begins_with_an_answer(count):
    by_chatml(conversation("Hello!", "Hi!", "What is it?", first="assistant")[:count])


def test_task_1_chat_ends_with_a_question():
    """What follows the last answer has no targets."""
    by_chatml(FOUR[:3])


def test_task_1_chat_two_answers_in_a_row():
    by_chatml([*TWO, {"role": "assistant", "content": "And it is a dog."}])


def test_task_1_chat_the_same_words_from_both():
    by_chatml(conversation("dog", "dog", "dog", "dog"))


def test_task_1_chat_an_empty_answer():
    """Only the end is learned."""
    by_chatml(conversation("Say nothing.", ""))


def test_task_1_chat_end_in_a_message():
    """A user and an assistant whose texts have the end token within."""
    by_chatml(conversation("a<|im_end|>b", "dog<|im_end|>is"))


@pytest.mark.parametrize("answer", ["\nblue", "\n\n\nblue", " blue", "blue\n", "blue \n\n"], ids=ascii)
def test_task_1_chat_tokens_across_the_border(answer):
    """White space at either end of an answer: words, and so tokens, may span the border."""
    by_chatml(conversation("What is it?", answer, "A dog?", answer))


@pytest.mark.parametrize("answer", ["e\u0301a", "\ud55c\uad6d\uc5b4 \U0001f415", "\u1112\u1161\u11ab"], ids=ascii)
def test_task_1_chat_bytes_and_normalization(answer):
    """Characters of several bytes, and such as NFC composes."""
    by_chatml(conversation(f"{answer} is?", answer, f"{answer}!", f"dog {answer} dog"))


def test_task_1_chat_without_a_newline():
    """Templates that add nothing after an end token; one begins with text of its own, one with the answer."""
    check_example(FOUR, no_newline, expected_example(FOUR, no_newline, "\n\n"), "a template without line breaks")
    tokens = TOKENIZER.encode("Hello!<|im_end|>")
    messages = conversation("Hello!", first="assistant")
    check_example(messages, without_roles, (tokens, [*tokens[1:], IGNORED]), "a template without roles")


def test_task_1_chat_text_between_prompt_and_answer():
    """What the template adds after the prompt is the model's to write."""
    expected = expected_example(TWO, thinking, "\n", "<think>\n\n</think>\n\n")
    check_example(TWO, thinking, expected, "a template that adds an empty thought")


def test_task_1_chat_the_learner_s_tokenizer():
    """Your tokenizer of week 1, on the same tables."""
    expected = expected_example(FOUR, chatml, "\n")
    check_example(FOUR, chatml, expected, "your tokenizer", tokenizer.ByteLevelBPE.from_file(TABLES))


def test_task_1_chat_transformers(pytorch):
    """transformers' mask of the assistant's tokens, for a template that marks them."""

    def theirs(torch, path, messages):
        from transformers import PreTrainedTokenizerFast

        template = (
            "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}"
            "{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}"
            "{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
        )
        own = PreTrainedTokenizerFast(tokenizer_file=str(TABLES))
        encoded = own.apply_chat_template(
            messages, chat_template=template, return_dict=True, return_assistant_tokens_mask=True
        )
        return torch.tensor([encoded["input_ids"], encoded["assistant_masks"]])

    tokens, mask = pytorch(theirs, TABLES.name, FOUR).astype(int).tolist()
    targets = [token if mine else IGNORED for token, mine in zip(tokens[1:], mask[1:], strict=True)]
    check_example(FOUR, chatml, (tokens, [*targets, IGNORED]), "transformers' mask")


def test_task_1_chat_sweep():
    """Every kind of text as the answer, and as the question before another one."""
    for text in awkward_texts()[::2]:
        if "<|" not in text:
            by_chatml(conversation(text, text, "dog", "is"))


@property_test
@given(contents=st.lists(st.text("ab \n\u00e9\u72d7", max_size=6), min_size=2, max_size=6))
def test_task_1_chat_what_is_learned_is_what_was_said(contents):
    """The targets, decoded, are the answers, each with its end, unless a token spans the border."""
    messages = conversation(*(f"x{content}x" for content in contents))
    case = f"{len(messages)} messages, Qwen's template: the targets, decoded"
    with noted(case):
        _, targets = sft.chat_example(messages, TOKENIZER, chatml, STOP)
    learned = b"".join(TOKENIZER.token_bytes[t] for t in targets if t != IGNORED).decode(errors="replace")
    said = "".join(f"{m['content']}<|im_end|>" for m in messages if m["role"] == "assistant")
    same_text(learned, said, case)


def test_task_1_chat_is_the_server_s_prompt():
    """The tokens before the first target's are those of the prompt that the server renders."""
    case = "user: That is a blue dog., Qwen's template"
    with noted(case):
        tokens, targets = sft.chat_example(TWO, TOKENIZER, chatml, STOP)
    first = next((t for t, target in enumerate(targets) if target != IGNORED), len(tokens))
    same_ids(tokens[: first + 1], TOKENIZER.encode(chatml(TWO[:1], True)), case)


@pytest.mark.parametrize("messages", [TWO[:1], []], ids=["a question", "nothing"])
def test_task_1_chat_refuses_without_an_answer(messages):
    with raises_value_error(f"{len(messages)} messages, none of them the assistant's"):
        sft.chat_example(messages, TOKENIZER, chatml, STOP)


def test_task_1_chat_refuses_an_answer_without_end():
    with raises_value_error("user: That is a blue dog., a template without <|im_end|>", "1"):
        sft.chat_example(TWO, TOKENIZER, without_end, STOP)
    with raises_value_error("user: That is a blue dog., end is <|endoftext|>", "1"):
        sft.chat_example(TWO, TOKENIZER, chatml, END)


def test_task_1_chat_refuses_a_later_answer_without_end():
    """The first answer has an end token; the second, message 3 or 4, has none."""

    def endless(messages, generate):
        return chatml(messages, generate).replace("blue.<|im_end|>", "blue.")

    with raises_value_error("four messages, a template that ends all but the last with <|im_end|>", "3"):
        sft.chat_example(FOUR, TOKENIZER, endless, STOP)
    with raises_value_error("a system message and four others, a template that ends all but the last", "4"):
        sft.chat_example([SYSTEM, *FOUR], TOKENIZER, endless, STOP)


def test_task_1_chat_refuses_by_the_number_of_the_message():
    """After a system message the first answer is message 2, counted from 0."""
    with raises_value_error("a system message and two others, a template without <|im_end|>", "2"):
        sft.chat_example([SYSTEM, *TWO], TOKENIZER, without_end, STOP)
    with raises_value_error("a system message and four others, an empty thought before the last answer alone", "2"):
        sft.chat_example([SYSTEM, *FOUR], TOKENIZER, thinking, STOP)


def test_task_1_chat_refuses_an_end_that_is_another_message_s():
    """The answer itself has no end token, but the next message has."""

    def cut(messages, generate):
        text = "".join(
            f"<|im_start|>{m['role']}\n{m['content']}" + "<|im_end|>" * (m["role"] == "user") + "\n" for m in messages
        )
        return text + "<|im_start|>assistant\n" * generate

    def begin(messages, generate):
        text = "".join(f"<|im_end|>{m['role']}\n{m['content']}\n" for m in messages)
        return text + "<|im_end|>assistant\n" * generate

    with raises_value_error("four messages, a template that ends only the user's with <|im_end|>", "1"):
        sft.chat_example(FOUR, TOKENIZER, cut, STOP)
    with raises_value_error("four messages, a template that begins each with <|im_end|>", "1"):
        sft.chat_example(FOUR, TOKENIZER, begin, STOP)


def test_task_1_chat_refuses_a_template_that_changes_the_past():
    """An empty thought before the last answer alone: the first answer is rendered in two ways."""
    with raises_value_error("four messages, a template that adds an empty thought to the last answer", "1"):
        sft.chat_example(FOUR, TOKENIZER, thinking, STOP)
    later = functools.partial(_counted, mark="user")
    with raises_value_error("four messages, a template that counts the messages", "1"):
        sft.chat_example(FOUR, TOKENIZER, later, STOP)
    with raises_value_error("two messages, a template that begins a thought in the prompt alone", "1"):
        sft.chat_example(TWO, TOKENIZER, lambda *given: chatml(*given) + "<think>\n" * given[1], STOP)


def _counted(messages, generate, mark):
    return f"{sum(m['role'] == mark for m in messages)} questions\n" + chatml(messages, generate)


def test_task_1_chat_new_lists():
    """Changing the first result must not change the second."""
    case = "user: That is a blue dog., Qwen's template, called twice"
    with noted(case):
        first = sft.chat_example(TWO, TOKENIZER, chatml, STOP)
        kept = [list(part) for part in first]
        for part in first:
            part.append(0)
        second = sft.chat_example(TWO, TOKENIZER, chatml, STOP)
    for actual, expected in zip(second, kept, strict=True):
        same_ids(actual, expected, case)
    assert np.array(kept).shape[0] == 2

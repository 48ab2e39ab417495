"""Messages, tools and calls as the text that Qwen3 was trained on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]

# Qwen3 was trained on these words, so they are quoted: Qwen3's chat template, Alibaba Cloud, Apache-2.0.
TOOLS_BEGIN = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>"""
TOOLS_END = """
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""


def turn(role: str, text: str) -> str:
    """Return one turn of the conversation."""
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def split_thought(message: Message) -> tuple[str, str]:
    """Return an assistant message's thought, without its tags, and the rest of its text."""
    text = message.get("content") or ""
    if isinstance(thought := message.get("reasoning_content"), str):
        return thought, text
    if "</think>" not in text:
        return "", text
    thought = text.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
    return thought, text.split("</think>")[-1].lstrip("\n")


def render_messages(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    generate: bool = True,
    thinking: bool = True,
) -> str:
    """Return a conversation as the text that Qwen3's chat template makes of it.

    - If there are tools, the text begins with a system turn: the text of the first message and an empty line, if that
      is a system message; TOOLS_BEGIN; for each tool a line break and the tool as `json.dumps(..., ensure_ascii=False)`
      writes it; TOOLS_END.
    - System and user messages are a turn each. A first system message is not repeated after the tools.
    - An assistant message is a turn of role assistant: its text, then its calls. Each call is on lines of its own,
      `<tool_call>`, the object `{"name": "...", "arguments": ...}`, `</tool_call>`; a line break separates it from the
      text or the call before it. Arguments are a JSON text, which is rendered as it is, or an object, which is written
      like a tool.
    - The results of calls, messages of role tool, are turns of role user. Successive ones share a turn. Each result is
      `<tool_response>`, its text and `</tool_response>`, on lines of their own.
    - Thoughts (see `split_thought`) are rendered only after the last question: the last user message whose text is not
      one whole tool response. Without a question, none are rendered. After it, `<think>`, line break, the thought
      without line breaks at its ends, line break, `</think>` and an empty line precede the text, which loses its line
      breaks at the beginning. If the thought is empty, only the last message of all is rendered so, with an empty
      thought.
    - With `generate`, the text ends with the beginning of the assistant's turn, `<|im_start|>assistant` and a line
      break. Without `thinking`, an empty thought follows: `<think>`, two line breaks, `</think>`, two line breaks.

    Args:
        messages: in OpenAI's form: `role`; `content`, a text or None; `tool_calls` of the assistant, each with a
            `function` that has `name` and `arguments`. They are not changed.
        tools: in OpenAI's form, see `function_schema`.

    Source: the chat template of Qwen3; `apply_chat_template` in transformers.
    """
    text, first = "", 0
    system = messages[0].get("content") or "" if messages and messages[0]["role"] == "system" else None
    if tools:
        lines = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
        text = turn("system", (f"{system}\n\n" if system is not None else "") + TOOLS_BEGIN + lines + TOOLS_END)
        first = system is not None
    last_question = _last_question(messages)
    for number, message in enumerate(messages[first:], first):
        role = message["role"]
        if role == "assistant":
            text += turn(role, _assistant(message, number > last_question, number == len(messages) - 1))
        elif role == "tool":
            opens = number == 0 or messages[number - 1]["role"] != "tool"
            closes = number == len(messages) - 1 or messages[number + 1]["role"] != "tool"
            response = f"\n<tool_response>\n{message.get('content') or ''}\n</tool_response>"
            text += "<|im_start|>user" * opens + response + "<|im_end|>\n" * closes
        else:
            text += turn(role, message.get("content") or "")
    if generate:
        text += "<|im_start|>assistant\n" + "<think>\n\n</think>\n\n" * (not thinking)
    return text


def _last_question(messages: Sequence[Message]) -> int:
    """Return the index of the last user message that is not a tool's result; that of the last message if none is."""
    for number in reversed(range(len(messages))):
        text = messages[number].get("content")
        if messages[number]["role"] != "user" or not isinstance(text, str):
            continue
        if not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):
            return number
    return len(messages) - 1


def _assistant(message: Message, current: bool, last: bool) -> str:
    """Return the text of an assistant's turn."""
    thought, content = split_thought(message)
    text = content
    if current and (last or thought):
        text = "<think>\n" + thought.strip("\n") + "\n</think>\n\n" + content.lstrip("\n")
    for number, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        arguments = function["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        # After a thought without text, its empty line already separates them.
        text += "\n" * bool(content or number)
        text += f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>'
    return text

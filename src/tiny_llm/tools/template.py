"""Messages, tools and calls as the text that Qwen3 was trained on."""

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
    raise NotImplementedError("7.2.1 Rendering tools and calls")

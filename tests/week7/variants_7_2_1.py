"""Known programs of task 7.2.1, messages and tools as text."""

import json
from functools import partial

import mlx.core as mx
from tests.week7.conversations import CONVERSATIONS, READ, TIME, calls, result, user
from tiny_llm_solution.tools.template import TOOLS_BEGIN, TOOLS_END, split_thought

from tiny_llm_course.testkit.variants import Variants

known = Variants("7.2.1")


def text(program, name, tools=(), **options):
    return mx.array(list(program(CONVERSATIONS[name], tools, **options).encode()), dtype=mx.int32)


for each in (
    "a system message",
    "two system messages",
    "text before two calls",
    "two calls",
    "arguments as an object",
    "a thought of the past",
    "thoughts of two steps",
    "a thought in its own field",
    "a last answer",
    "a result as a user's message",
    "a question that quotes a result",
    "no question",
    "a thought and no text",
    "an empty text before a call",
):
    known.probe()(partial(lambda program, name: text(program, name), name=each))
known.probe_table(
    tools=lambda program: text(program, "one call", [READ, TIME]),
    system_and_tools=lambda program: text(program, "a system message", [TIME]),
    two_systems_and_tools=lambda program: text(program, "two system messages", [TIME]),
    no_thinking=lambda program: text(program, "a question", thinking=False),
    no_prompt=lambda program: text(program, "one call", generate=False),
)


@known.sized("64 rounds of a question, a call and its result")
def sized(program):
    messages = [user("What is in a.py?"), calls('{"path": "a.py"}', content="I look."), result("x = 1")] * 64
    return lambda: program(messages, [READ])


known.change(
    "system-twice",
    ("first = system is not None", "first = 0"),
    fact="the system message is rendered again after the tools",
    question="The first turn already contains the system message's text. Which messages are left to render?",
)
known.change(
    "no-system-turn-beside-tools",
    (
        'text += turn(role, message.get("content") or "")',
        'text += turn(role, message.get("content") or "") * (not tools or role != "system")',
    ),
    fact="system messages after the first one are left out beside tools",
    question="A system message comes after an answer. Does the turn with the tools contain it already?",
)
known.change(
    "a-turn-for-each-result",
    ('opens = number == 0 or messages[number - 1]["role"] != "tool"', "opens = True"),
    ('closes = number == len(messages) - 1 or messages[number + 1]["role"] != "tool"', "closes = True"),
    fact="each result of a call is a turn of its own",
    question="The model called two tools in one turn. In how many turns did it see the results in training?",
)
known.change(
    "arguments-encoded-twice",
    ("if not isinstance(arguments, str):", "if True:"),
    fact="arguments that are JSON already are encoded a second time, as a string",
    question="OpenAI's `arguments` is a text. What does json.dumps make of a text?",
)
known.change(
    "tools-in-ascii",
    ("json.dumps(tool, ensure_ascii=False)", "json.dumps(tool)"),
    fact="characters of a tool that are not ASCII are escaped",
    question="How does json.dumps write \u72d7 by default?",
)
known.change(
    "arguments-in-ascii",
    ("json.dumps(arguments, ensure_ascii=False)", "json.dumps(arguments)"),
    fact="characters of arguments that are not ASCII are escaped",
    question="How does json.dumps write caf\u00e9.py by default?",
)
known.change(
    "compact-tools",
    ("json.dumps(tool, ensure_ascii=False)", 'json.dumps(tool, ensure_ascii=False, separators=(",", ":"))'),
    fact="the JSON of a tool has no spaces after commas and colons",
    question="Which text did the model see in training, with spaces or without?",
)
known.change(
    "all-thoughts",
    ("if current and (last or thought):", "if last or thought:"),
    fact="the thoughts before the last question are rendered, too",
    question="The user has asked something new. Which thoughts does the template drop?",
)
known.change(
    "no-thoughts",
    ("if current and (last or thought):", "if False:"),
    fact="no thought is rendered, not even after the last question",
    question="The model thought, called a tool and now reads the result. Does it still see why it called?",
)
known.change(
    "no-empty-thought",
    ("if current and (last or thought):", "if current and thought:"),
    fact="a last answer without a thought gets no empty one",
    question="What does the template render before a last message that has no thought?",
)
known.change(
    "results-are-questions",
    ('if not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):', "if True:"),
    fact="a user message that is a tool response counts as the last question",
    question="Who wrote the message that begins with <tool_response>: the user or a tool?",
)
known.change(
    "quoted-results-are-no-questions",
    ('text.startswith("<tool_response>") and text.endswith("</tool_response>")', 'text.startswith("<tool_response>")'),
    fact="a user message that begins with <tool_response> is no question, whatever follows",
    question="A user quotes a result and asks about it. Where does the message end?",
)
known.change(
    "no-question-before-all",
    ("return len(messages) - 1", "return -1"),
    fact="all thoughts are rendered in a conversation without a question",
    question="Which messages are after the last question if there is none?",
)
known.change(
    "calls-on-one-line",
    ('text += "\\n" * bool(content or number)', 'text += "\\n" * bool(content and not number)'),
    fact="no line break separates a call from the call before it",
    question="What stands between </tool_call> and the next <tool_call>?",
)
known.change(
    "always-a-line-break",
    ('text += "\\n" * bool(content or number)', 'text += "\\n"'),
    fact="a line break precedes the first call even if its turn has no text",
    question="The turn begins with `assistant` and a line break. How many line breaks precede a call without text?",
)
known.change(
    "a-line-break-after-a-thought",
    ('text += "\\n" * bool(content or number)', 'text += "\\n" * bool(text)'),
    fact="a line break precedes the first call after a thought without text",
    question="A thought ends with an empty line, and no text follows. What has the call before it?",
)
known.change(
    "a-line-break-unless-none",
    ('text += "\\n" * bool(content or number)', 'text += "\\n" * (number > 0 or message.get("content") is not None)'),
    fact="a line break precedes the first call unless `content` is None, even if the call follows no text",
    question="`content` is an empty text. What is between `assistant`, a line break and the call?",
)
known.change(
    "line-breaks-after-a-thought",
    ('content.lstrip("\\n")', "content"),
    fact="the text after a thought keeps the line breaks at its beginning",
    question="How many line breaks are between </think> and the text in Qwen3's template?",
)
known.change(
    "always-an-empty-thought",
    ('"<think>\\n\\n</think>\\n\\n" * (not thinking)', '"<think>\\n\\n</think>\\n\\n"'),
    fact="the prompt ends with an empty thought although thinking is on",
    question="What does the model do if its thought is already over when it begins?",
)
known.change(
    "empty-thoughts",
    ("if current and (last or thought):", "if current:"),
    fact="every answer since the last question gets an empty thought if it has none, not only the last message",
    question="A call, its result, an answer: which of these messages has an empty thought in Qwen3's template?",
)


@known.accepted("a list of parts")
def parts(messages, tools=(), *, generate=True, thinking=True):
    out, rest = [], list(messages)
    if tools:
        out += ["<|im_start|>system\n"]
        if rest and rest[0]["role"] == "system":
            out += [rest.pop(0).get("content") or "", "\n\n"]
        out += [
            TOOLS_BEGIN,
            *("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools),
            TOOLS_END,
            "<|im_end|>\n",
        ]
    asked = [
        i
        for i, m in enumerate(rest)
        if m["role"] == "user"
        and isinstance(m["content"], str)
        and not (m["content"].startswith("<tool_response>") and m["content"].endswith("</tool_response>"))
    ]
    for i, m in enumerate(rest):
        role = m["role"]
        if role != "tool":
            out.append(f"<|im_start|>{role}\n")
        if role == "assistant":
            thought, content = split_thought(m)
            if i > (asked[-1] if asked else len(rest) - 1) and (thought or i + 1 == len(rest)):
                out += ["<think>\n", thought.strip("\n"), "\n</think>\n\n", content.lstrip("\n")]
            else:
                out.append(content)
            blocks = []
            for call in m.get("tool_calls") or []:
                name, given = call["function"]["name"], call["function"]["arguments"]
                given = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
                blocks.append('<tool_call>\n{"name": "' + name + '", "arguments": ' + given + "}\n</tool_call>")
            out += ["\n" if content and blocks else "", "\n".join(blocks)]
        elif role == "tool":
            if not i or rest[i - 1]["role"] != "tool":
                out.append("<|im_start|>user")
            out += ["\n<tool_response>\n", m.get("content") or "", "\n</tool_response>"]
            if i + 1 < len(rest) and rest[i + 1]["role"] == "tool":
                continue
        else:
            out.append(m.get("content") or "")
        out.append("<|im_end|>\n")
    out += ["<|im_start|>assistant\n"] if generate else []
    out += ["<think>\n\n</think>\n\n"] if generate and not thinking else []
    return "".join(out)

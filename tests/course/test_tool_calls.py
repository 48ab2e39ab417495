"""Tool calls through a real server, by OpenAI's client and its helpers; a scripted model writes the answers."""

import json
import sys
from pathlib import Path

import pytest
from tests.course.server_clients import client_of, converted, healthy
from tests.week7.conversations import CONVERSATIONS, TOOLS, expected_text

from tiny_llm_course.checkpoints.chat_template import render_chat
from tiny_llm_course.serving.schema import Chat
from tiny_llm_course.serving.service import parse_arguments
from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.servers import running_server

openai = pytest.importorskip("openai", reason="not run here: needs openai (pdm run dev-setup)")
pytestmark = [pytest.mark.maintainers, needs("port")]
MODEL = "tiny-qwen3"
READ = {
    "type": "function",
    "function": {
        "name": "read_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
BAD = {
    "type": "function",
    "function": {
        "name": "bad",
        "parameters": {"type": "object", "properties": {"n": {"multipleOf": 2, "type": "integer"}}},
    },
}
TEXT = {"type": "function", "function": {"name": "text", "parameters": {"type": "string"}}}
SAID = [{"role": "user", "content": "What is in a.py?"}]
CALL = '<tool_call>\n{"name": "read_file", "arguments": {"path": "caf\u00e9.py"}}\n</tool_call>'
TWO = f"Let me look.\n{CALL}\n{CALL.replace('caf', 'b')}"
NO_JSON = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}\n</tool_call>'


@pytest.fixture(scope="module")
def client():
    script = Path(__file__).with_name("scripted_server.py")
    command = [sys.executable, str(script), "{port}"]
    with running_server(command, ready=healthy, seconds=120) as port, client_of(port) as found:
        yield found


def ask(client, answer, **more):
    asked = {"model": MODEL, "messages": SAID, "tools": [READ], "user": answer, **more}
    return client.chat.completions.create(**asked)


def called(message):
    return [(call.function.name, call.function.arguments) for call in message.tool_calls or []]


def streamed(client, answer, **more):
    """The message that OpenAI's helper puts together from a stream, and the kinds of its events."""
    asked = {"model": MODEL, "messages": SAID, "tools": [READ], "user": answer, **more}
    with client.chat.completions.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        return stream.get_final_completion().choices[0], kinds


def test_calls_of_a_whole_answer(client):
    choice = ask(client, TWO).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    assert called(choice.message) == [("read_file", '{"path": "café.py"}'), ("read_file", '{"path": "bé.py"}')]
    ids = [call.id for call in choice.message.tool_calls]
    assert len({*ids}) == 2
    assert all(name.startswith("call_") for name in ids)
    assert ask(client, CALL).choices[0].message.content is None


def test_calls_of_a_stream(client):
    choice, kinds = streamed(client, TWO)
    whole = ask(client, TWO).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert (choice.message.content, called(choice.message)) == (whole.message.content, called(whole.message))
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert kinds.count("tool_calls.function.arguments.delta") > 8  # the arguments arrive in pieces
    assert choice.message.tool_calls[1].function.parsed_arguments == {"path": "bé.py"}


def test_the_pieces_of_a_stream(client):
    """In OpenAI's form: index, id, type and name once, then pieces of the arguments."""
    deltas = [call for chunk in ask(client, TWO, stream=True) for call in chunk.choices[0].delta.tool_calls or []]
    for index in (0, 1):
        own = [call for call in deltas if call.index == index]
        assert [bool(call.id) for call in own] == [True] + [False] * (len(own) - 1)
        assert [call.function.name for call in own[:2]] == ["read_file", None]
    reasons = [chunk.choices[0].finish_reason for chunk in ask(client, TWO, stream=True)]
    assert set(reasons[:-1]) == {None}
    assert reasons[-1] == "tool_calls"


def test_a_conversation_goes_on(client):
    """The answer, as the client has it, and the results go back into the next request."""
    message = ask(client, TWO).choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": "x = 1"} for call in message.tool_calls]
    answer = ask(client, "It sets x to 1.", messages=[*SAID, message, *results])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == "It sets x to 1."
    assert answer.choices[0].message.tool_calls is None
    text = expected_text([*SAID, message.model_dump(exclude_none=True), *results], [READ])
    tokens = converted(client.base_url.port, "/tokenize", model=MODEL, prompt=text)
    assert answer.usage.prompt_tokens == tokens["count"]


def test_the_prompt_has_tools_calls_and_results(client):
    """The embedded model's template knows no tools, so the prompt is in Qwen3's format."""
    count = ask(client, "Yes.").usage.prompt_tokens
    assert count > ask(client, "Yes.", tool_choice="none").usage.prompt_tokens + 50
    assert ask(client, "Yes.", tool_choice="auto").usage.prompt_tokens == count


def test_a_template_that_quotes_the_arguments_itself_gets_objects():
    """As Qwen2.5's does, whose template has no test for a text."""
    calls = [{"function": {"name": "f", "arguments": text}} for text in ('{"a": "\u00e9"}', "{")]
    messages = [*SAID, {"role": "assistant", "tool_calls": calls}]
    parse_arguments(messages)
    template = "{% for call in messages[1].tool_calls %}{{ call.function.arguments | tojson }}{% endfor %}"
    assert render_chat(template, messages) == '{"a": "\u00e9"}"{"'


def test_malformed_calls(client):
    """With a name it is a call, whose arguments the client finds to be wrong; otherwise it is text."""
    choice = ask(client, NO_JSON).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert called(choice.message) == [("read_file", '{"path": "a.py"}')]
    cut = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a'
    assert called(ask(client, cut).choices[0].message) == [("read_file", '{"path": "a')]
    nameless = "<tool_call>read a.py</tool_call>"
    for answer in (ask(client, nameless).choices[0], streamed(client, nameless)[0]):
        assert (answer.finish_reason, answer.message.content) == ("stop", nameless)
        assert not answer.message.tool_calls


def test_an_answer_that_is_cut(client):
    choice = ask(client, CALL, max_completion_tokens=30).choices[0]
    assert choice.finish_reason == "length"
    begun = '<tool_call>\n{"name"'
    found = ask(client, begun).choices[0].message.content
    assert found == begun.replace("\n", "")  # no tag that the model did not write


def test_one_call_at_a_time(client):
    assert len(ask(client, TWO, parallel_tool_calls=False).choices[0].message.tool_calls) == 1
    assert len(streamed(client, TWO, parallel_tool_calls=False)[0].message.tool_calls) == 1


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object", "properties": {}}])
def test_a_tool_without_properties_takes_no_arguments(parameters):
    tool = {"type": "function", "function": {"name": "now", "parameters": parameters}}
    chat = Chat.model_validate({"model": MODEL, "messages": SAID, "tools": [tool], "tool_choice": "required"})
    assert chat.call_schema["$defs"]["now"] == {"type": "object", "additionalProperties": False, **(parameters or {})}


def test_without_tools_a_call_is_text(client):
    for more in ({"tool_choice": "none"}, {"tools": openai.omit}):
        choice = ask(client, CALL, **more).choices[0]
        assert (choice.finish_reason, choice.message.content) == ("stop", CALL)


def test_several_answers(client):
    choices = ask(client, TWO, n=2).choices
    assert [len(choice.message.tool_calls) for choice in choices] == [2, 2]
    assert len({call.id for choice in choices for call in choice.message.tool_calls}) == 4


def test_pydantic_tools(client):
    """OpenAI's helper makes the schema from a class, and an object of that class from the arguments."""
    from pydantic import BaseModel

    class ReadFile(BaseModel):
        path: str

    answer = CALL.replace("read_file", "ReadFile")
    tools = [openai.pydantic_function_tool(ReadFile)]
    for completions in (client.chat.completions, client.beta.chat.completions):
        parsed = completions.parse(model=MODEL, messages=SAID, tools=tools, user=answer)
        assert parsed.choices[0].message.tool_calls[0].function.parsed_arguments == ReadFile(path="café.py")


@pytest.mark.parametrize("stream", [False, True])
def test_langchain_binds_tools(client, stream):
    """Its calls have parsed arguments, also those that it puts together from a stream; results go back."""
    langchain = pytest.importorskip("langchain_openai", reason="not run here: needs langchain-openai")
    from langchain_core.messages import HumanMessage, ToolMessage

    def model(answer):
        given = {"model": MODEL, "base_url": str(client.base_url), "api_key": "none", "max_retries": 0}
        return langchain.ChatOpenAI(**given, model_kwargs={"user": answer}).bind_tools([READ])

    said = [HumanMessage("What is in a.py?")]
    if stream:
        first, *others = model(TWO).stream(said)
        found = sum(others, first)
    else:
        found = model(TWO).invoke(said)
    assert found.text == "Let me look."
    assert [(call["name"], call["args"]["path"]) for call in found.tool_calls] == [
        ("read_file", "café.py"),
        ("read_file", "bé.py"),
    ]
    results = [ToolMessage("x = 1", tool_call_id=call["id"]) for call in found.tool_calls]
    assert model("It sets x.").invoke([*said, found, *results]).text == "It sets x."
    wrong = model(NO_JSON).invoke(said)
    assert wrong.tool_calls[0]["args"] == {"path": "a.py"}
    assert model(CALL[:60]).invoke(said).invalid_tool_calls[0]["name"] == "read_file"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tools": [{"type": "function"}]}, "Missing required parameter: tools.0.function"),
        ({"tools": [TEXT]}, "tools: the parameters of text must have the type object, not 'string'"),
        ({"tools": [READ, READ]}, "tools: two tools are called read_file"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name"),
        ({"tool_choice": "any"}, 'tool_choice: expected "none", "auto", "required", or '),
        ({"tool_choice": {"type": "function", "function": {"name": "run"}}}, "there is no tool 'run', only read_file"),
        ({"tool_choice": "required", "tools": []}, "tool_choice needs tools"),
        ({"tool_choice": "required", "tools": [READ, BAD]}, "tools: #/$defs/bad/properties/n: multipleOf is not"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages.0.tool_calls.0.function"),
    ],
    ids=lambda value: f"{value!a:.40}",
)
def test_a_request_that_is_refused(client, change, words):
    with pytest.raises(openai.BadRequestError) as found:
        ask(client, "Yes.", **change)
    assert words in found.value.body["message"]
    assert "\n" not in found.value.body["message"]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_our_template_as_transformers_renders_it(name):
    """The Jinja that the checks of task 7.2.1 compare with, by the server's renderer and by transformers."""
    transformers = pytest.importorskip("transformers", reason="not run here: needs transformers")
    from tokenizers import Tokenizer, models

    template = (Path(__file__).parent.parent / "week7/qwen3.jinja").read_text(encoding="utf-8")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    for tools in TOOLS.values():
        expected = expected_text(CONVERSATIONS[name], tools)
        assert render_chat(template, CONVERSATIONS[name], tools=tools, more={"enable_thinking": True}) == expected
        found = tokenizer.apply_chat_template(
            json.loads(json.dumps(CONVERSATIONS[name])),
            tools=tools or None,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=True,
        )
        assert found == expected

"""Libraries that programs talk to a server with: openai, langchain-openai and litellm (lm-eval: `test_lm_eval.py`)."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.course.server_clients import LONG, MODEL, client_of, serving, talk

from tiny_llm_course.testkit.marks import needs
from tiny_llm_course.testkit.variants import load_solution

openai = pytest.importorskip("openai", reason="not run here: needs openai (pdm run dev-setup)")
pytestmark = [pytest.mark.maintainers, needs("port")]
KEY = "open sesame"
ANIMALS = ("dog", "cat", "bird", "fish", "frog", "bear", "duck", "mouse")
PROMPTS = [f"Tell me a story about a {animal}." for animal in ANIMALS]
LITELLM = os.environ.get("LITELLM") or (sys.executable if find_spec("litellm") else None)


@pytest.fixture(scope="module")
def port():
    with serving("--api-key", KEY) as found:
        yield found


@pytest.fixture(scope="module")
def tight():
    """A server for one request at a time."""
    with serving("--api-key", KEY, "--max-num-seqs", "1", "--waiting", "0") as found:
        yield found


@pytest.fixture(scope="module")
def alone(port):
    """The answers to all prompts, one at a time."""
    with client_of(port, KEY) as client:
        return [talk(client, messages=said(prompt)).choices[0].message.content for prompt in PROMPTS]


def said(prompt):
    return [{"role": "user", "content": prompt}]


def test_openai_asks_for_eight_at_once(port, alone):
    async def script():
        options = {"model": MODEL, "max_completion_tokens": 24, "temperature": 0}
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY, max_retries=0) as client:
            create = client.chat.completions.create
            whole = await asyncio.gather(*(create(messages=said(prompt), **options) for prompt in PROMPTS))
            streams = await asyncio.gather(*(create(messages=said(p), stream=True, **options) for p in PROMPTS))
            pieces = [[chunk.choices[0].delta.content async for chunk in stream] for stream in streams]
        return [answer.choices[0].message.content for answer in whole], ["".join(each) for each in pieces]

    assert asyncio.run(script()) == (alone, alone)


def waits_out_another(tight, ask):
    """Whether a rejected client retries, and not before its Retry-After."""
    with client_of(tight, KEY) as client, client.completions.create(stream=True, **LONG) as stream:
        next(iter(stream))
        with pytest.raises(openai.RateLimitError) as refused:
            talk(client)
        wait = int(refused.value.response.headers["retry-after"])
        leaving = threading.Timer(0.2, stream.close)
        leaving.start()
        begun = time.monotonic()
        assert ask()
        leaving.join()
    return time.monotonic() - begun >= wait


def test_openai_honors_retry_after(tight):
    with client_of(tight, KEY) as client:
        assert waits_out_another(tight, lambda: talk(client.with_options(max_retries=3)))


# The agent's own client


def test_the_agent_s_client(port):
    load_solution()
    from tiny_llm_solution.agent.client import ServerModel

    url, size = f"http://127.0.0.1:{port}/v1", {"enum": ["small", "large"]}
    schema = {"type": "object", "properties": {"size": size}, "required": ["size"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": "grow", "description": "Grow.", "parameters": schema}}]
    model = ServerModel(url, key=KEY, tool_choice="required")
    answer = model(said(PROMPTS[0]), tools)
    [call] = answer.message["tool_calls"]
    assert (model.name, answer.finish_reason, call["function"]["name"]) == (MODEL, "tool_calls", "grow")
    assert json.loads(call["function"]["arguments"])["size"] in ("small", "large")
    assert answer.tokens > 50
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "Error: no"}]
    assert model([*said(PROMPTS[0]), answer.message, *results], tools).message["tool_calls"]
    with pytest.raises(OSError, match="/models: status 401, "):
        ServerModel(url, key="wrong")
    with pytest.raises(OSError, match="status 404, There is no model 'gpt-0'"):
        ServerModel(url, "gpt-0", KEY)(said(PROMPTS[0]), [])


# LangChain


def chat_of(port, **more):
    langchain = pytest.importorskip("langchain_openai", reason="not run here: needs langchain-openai")
    given = {"model": MODEL, "base_url": f"http://127.0.0.1:{port}/v1", "api_key": KEY, "max_retries": 0}
    return langchain.ChatOpenAI(**{**given, "max_tokens": 24, "temperature": 0, **more})


def test_langchain(port, alone):
    model = chat_of(port)
    found = model.invoke(PROMPTS[0])
    assert found.content == alone[0]
    assert found.response_metadata["model_name"] == MODEL
    assert found.response_metadata["finish_reason"] == "length"
    assert found.usage_metadata["output_tokens"] == 24
    assert model.invoke(PROMPTS[0], stop=[alone[0][10:16]]).content == alone[0][:10]
    from langchain_core.messages import HumanMessage

    several = chat_of(port, n=3).generate([[HumanMessage(PROMPTS[0])]]).generations[0]
    assert [each.text for each in several] == [alone[0]] * 3
    scored = model.invoke(PROMPTS[0], logprobs=True, top_logprobs=2).response_metadata["logprobs"]["content"]
    assert "".join(each["token"] for each in scored) == alone[0]
    assert [len(each["top_logprobs"]) for each in scored] == [2] * 24


def test_langchain_streams(port, alone):
    *_, last = pieces = list(chat_of(port, stream_usage=True).stream(PROMPTS[0]))
    assert "".join(piece.content for piece in pieces) == alone[0]
    usage = [piece.usage_metadata for piece in pieces if piece.usage_metadata]
    assert [each["output_tokens"] for each in usage] == [24]
    assert last.chunk_position == "last"


def test_langchain_at_once(port, alone):
    async def script():
        model = chat_of(port)
        return await model.abatch(PROMPTS), [piece.content async for piece in model.astream(PROMPTS[1])]

    answers, pieces = asyncio.run(script())
    assert [answer.content for answer in answers] == alone
    assert "".join(pieces) == alone[1]


def test_langchain_completions(port):
    chat_of(port)
    from langchain_openai import OpenAI

    given = {"base_url": f"http://127.0.0.1:{port}/v1", "api_key": KEY, "max_retries": 0, "temperature": 0}
    model = OpenAI(model=MODEL, max_tokens=8, **given)
    text = model.invoke("Once upon a time")
    assert "".join(model.stream("Once upon a time")) == text
    assert model.invoke("Once upon a time", echo=True) == "Once upon a time" + text


def test_langchain_raises_what_its_users_catch(port, tight):
    exceptions = pytest.importorskip("langchain_core.exceptions", reason="not run here: needs langchain-openai")
    for fault, prompt, own, openais in (
        ({}, "dog " * 3000, exceptions.ContextOverflowError, openai.BadRequestError),
        ({"temperature": 3}, "hi", exceptions.ModelInvalidRequestError, openai.BadRequestError),
        ({"api_key": "none"}, "hi", exceptions.ModelAuthenticationError, openai.AuthenticationError),
        ({"model": "gpt-0"}, "hi", exceptions.ModelNotFoundError, openai.NotFoundError),
    ):
        with pytest.raises(own) as found:
            chat_of(port, **fault).invoke(prompt)
        assert isinstance(found.value, openais)
    patient = chat_of(tight, max_retries=3)
    assert patient.invoke("hi").content  # makes the connections, which takes longer than the other one stays
    assert waits_out_another(tight, lambda: patient.invoke("hi").content)


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_demanded_follows_the_schema_of_its_tool(port, stream):
    size = {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}, "required": ["size"]}
    size |= {"additionalProperties": False}
    functions = [{"name": name, "parameters": size, "strict": True} for name in ("grow", "shrink")]
    tools = [{"type": "function", "function": function} for function in functions]
    shrink = {"type": "function", "function": {"name": "shrink"}}
    with client_of(port, KEY) as client:
        for choice, names in (("required", {"grow", "shrink"}), (shrink, {"shrink"})):
            asked = {"model": MODEL, "messages": said(PROMPTS[0]), "tools": tools, "tool_choice": choice, "seed": 1}
            if stream:
                with client.chat.completions.stream(**asked) as events:
                    answer = events.get_final_completion().choices[0]
            else:
                answer = client.chat.completions.create(**asked).choices[0]
            [call] = answer.message.tool_calls
            assert answer.finish_reason == "tool_calls"
            assert call.function.name in names
            assert json.loads(call.function.arguments)["size"] in ("small", "large")


def test_a_call_that_is_demanded_is_an_object_of_its_class(port):
    """OpenAI's helper writes a class inside of a class as a reference."""
    from typing import Literal

    from pydantic import BaseModel

    class Dog(BaseModel):
        color: Literal["blue", "red"]

    class Walk(BaseModel):
        first: Dog
        best: Dog

    tools = [openai.pydantic_function_tool(each) for each in (Walk, Dog)]
    with client_of(port, KEY) as client:
        asked = {"model": MODEL, "messages": said(PROMPTS[0]), "tools": tools, "seed": 1, "max_completion_tokens": 99}
        walk = {"type": "function", "function": {"name": "Walk"}}
        for choice in ("required", walk):
            answer = client.chat.completions.parse(**asked, tool_choice=choice).choices[0]
            [call] = answer.message.tool_calls
            assert isinstance(call.function.parsed_arguments, Walk if choice == walk else Walk | Dog)


def test_langchain_gets_json_and_the_call_it_demands(port, alone):
    schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
    tool = {"title": "Weather", "description": "Look it up.", **schema, "additionalProperties": False}
    found = chat_of(port).with_structured_output(tool, method="json_schema").invoke(PROMPTS[0])
    assert found["city"] in ("Rome", "Oslo")
    found = chat_of(port, max_tokens=60).with_structured_output(tool, method="function_calling").invoke(PROMPTS[0])
    assert found["city"] in ("Rome", "Oslo")
    assert chat_of(port).bind_tools([tool], tool_choice="none").invoke(PROMPTS[0]).content == alone[0]


# litellm


@pytest.mark.skipif(not LITELLM, reason="not run here: litellm is not installed (LITELLM names a Python that has it)")
def test_litellm(port, tight):
    script = Path(__file__).with_name("litellm_client.py")
    command = [LITELLM, script, str(port), str(tight), MODEL, KEY, *PROMPTS]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # which is fetched otherwise
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("all right\n")

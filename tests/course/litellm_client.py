"""What litellm makes of a server: `python litellm_client.py PORT TIGHT_PORT MODEL KEY PROMPT...` asserts it all.

`test_clients.py` runs this with a Python that has litellm, which weighs 300 MB.
"""

import asyncio
import sys
import threading
import time
from typing import Any

import litellm
import openai

PORT, TIGHT, MODEL, KEY, *PROMPTS = sys.argv[1:]


def options(port: str = PORT, model: str = MODEL, key: str = KEY, **more: Any) -> dict[str, Any]:
    """The arguments of a completion; the model's provider is any server that speaks OpenAI's API."""
    given = {"model": f"openai/{model}", "api_base": f"http://127.0.0.1:{port}/v1", "api_key": key}
    return {**given, "max_tokens": 24, "temperature": 0, "max_retries": 0, **more}


def chat(prompt: str, **more: Any) -> Any:
    """A chat of one message."""
    return litellm.completion(messages=[{"role": "user", "content": prompt}], **options(**more))


def text_of(answer: Any) -> str:
    """What the first choice says."""
    return str(answer.choices[0].message.content)


def error_of(**more: Any) -> type[Exception]:
    """The class of what is raised, and its message printed."""
    try:
        chat(**{"prompt": "hi", **more})
    except Exception as error:
        print(type(error).__name__, str(error)[:200])
        return type(error)
    raise AssertionError("nothing was raised")


server = openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key=KEY)
alone = []
for prompt in PROMPTS:
    message: Any = {"role": "user", "content": prompt}
    found = server.chat.completions.create(model=MODEL, messages=[message], max_tokens=24, temperature=0)
    alone.append(found.choices[0].message.content or "")

# What it answers
assert [text_of(chat(prompt)) for prompt in PROMPTS] == alone
assert text_of(chat(PROMPTS[0], stop=[alone[0][10:16]])) == alone[0][:10]
assert [choice.message.content for choice in chat(PROMPTS[0], n=3).choices] == [alone[0]] * 3
scored = chat(PROMPTS[0], logprobs=True, top_logprobs=2).choices[0].logprobs.content
assert "".join(each.token for each in scored) == alone[0]
assert [len(each.top_logprobs) for each in scored] == [2] * 24
assert chat(PROMPTS[0]).usage.completion_tokens == 24

# Streams
chunks = list(chat(PROMPTS[0], stream=True, stream_options={"include_usage": True}))
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == alone[0]
assert [chunk.usage.completion_tokens for chunk in chunks if getattr(chunk, "usage", None)] == [24]
rebuilt: Any = litellm.stream_chunk_builder(chunks)
assert text_of(rebuilt) == alone[0]


async def at_once() -> list[str]:
    """All prompts together."""
    messages = [[{"role": "user", "content": prompt}] for prompt in PROMPTS]
    return [
        text_of(each)
        for each in await asyncio.gather(*(litellm.acompletion(messages=one, **options()) for one in messages))
    ]


assert asyncio.run(at_once()) == alone

# Completions
texts = options(model="", max_tokens=8) | {"model": f"text-completion-openai/{MODEL}", "prompt": "Once upon a time"}
text = litellm.text_completion(**texts).choices[0].text
echoed = litellm.text_completion(**texts, echo=True).choices[0].text
assert echoed == "Once upon a time" + text

# Errors
assert error_of(prompt="dog " * 3000) is litellm.ContextWindowExceededError
assert error_of(temperature=-1) is litellm.BadRequestError
assert error_of(key="none") is litellm.AuthenticationError
assert error_of(model="gpt-0") is litellm.NotFoundError
schema = {"type": "integer", "minimum": 3, "maximum": 5}
described = {"name": "number", "schema": schema}
form = {"type": "json_schema", "json_schema": described}
assert text_of(chat(PROMPTS[0], response_format=form)) in ("3", "4", "5")
described["schema"] = {"type": "string", "format": "date"}
assert error_of(response_format=form) is litellm.BadRequestError
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
assert error_of(tools=[*tools, *tools]) is litellm.BadRequestError
assert text_of(chat(PROMPTS[0], tools=tools, tool_choice="none")) == alone[0]

# A server that is busy
patient: dict[str, Any] = {"prompt": PROMPTS[0], "port": TIGHT, "max_retries": 3}
assert text_of(chat(**patient)) == alone[0]  # makes the client, which takes longer than the other one stays
busy = openai.OpenAI(base_url=f"http://127.0.0.1:{TIGHT}/v1", api_key=KEY)
more: dict[str, Any] = {"extra_body": {"ignore_eos": True}}
stream: Any = busy.completions.create(model=MODEL, prompt="Once", max_tokens=1900, stream=True, **more)
next(iter(stream))
assert error_of(port=TIGHT) is litellm.RateLimitError
leaving = threading.Timer(0.2, stream.close)
leaving.start()
begun = time.monotonic()
assert text_of(chat(**patient)) == alone[0]
assert time.monotonic() - begun >= 1, "Retry-After"
leaving.join()
print("all right")

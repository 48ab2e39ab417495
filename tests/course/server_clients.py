"""Start a server as `pdm run serve` does, and talk to it with OpenAI's client or as plain HTTP."""

import json
import sys
from contextlib import contextmanager, suppress
from urllib.error import URLError
from urllib.request import Request, urlopen

from tiny_llm_course.testkit.servers import running_server

MODEL = "tiny-qwen3"
# Of the last stages, the one in which an idle server holds no page: `prefix-cache` keeps some.
SERVE = [sys.executable, "-m", "tiny_llm_course", "serve", "--solution", "--stage", "paged", "--port", "{port}"]
LONG = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 1900, "extra_body": {"ignore_eos": True}}


def healthy(port):
    with suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
        return answer.status == 200
    return False


@contextmanager
def serving(*more):
    """A server's port; the first one on a machine is compiled."""
    with running_server([*SERVE, *more], ready=healthy, seconds=300) as port:
        yield port


def client_of(port, key="none"):
    import openai  # not at the top: a clone without the maintainers' tools collects every test

    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0, timeout=60)


def talk(client, **more):
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me a story about a dog."}]}
    return client.chat.completions.create(**{**asked, "max_completion_tokens": 24, "temperature": 0, **more})


def converted(port, path, **body):
    request = Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())

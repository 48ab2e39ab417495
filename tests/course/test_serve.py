"""`pdm run serve`: a real server, talked to by OpenAI's client, by curl, and by clients that behave badly."""

import asyncio
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.course.server_clients import LONG, MODEL, SERVE, client_of, converted, serving, talk

from tiny_llm_course.paths import ROOT
from tiny_llm_course.serving.run import listen
from tiny_llm_course.testkit.marks import needs

openai = pytest.importorskip("openai", reason="not run here: needs openai (pdm run dev-setup)")

pytestmark = [pytest.mark.maintainers, needs("port")]


@pytest.fixture(scope="module")
def port():
    with serving() as found:
        yield found


@pytest.fixture
def client(port):
    with client_of(port) as found:
        yield found


def figures(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = re.sub('model_name="[^"]*",?', "", answer.read().decode()).replace("{}", "").splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def idle(port, seconds=10.0):
    """Whether nobody is in the engine and every page is free, now or soon."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        now = figures(port)
        if now["vllm:num_requests_running"] == now["vllm:num_requests_waiting"] == 0:
            return now["tiny_llm:free_pages"] == now["tiny_llm:pages"]
        time.sleep(0.05)
    return False


def story(client, **more):
    asked = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
    return client.completions.create(**{**asked, **more})


def with_schema(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "any", "schema": schema}}}


# What it answers


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    assert client.models.retrieve(MODEL).max_model_len == 2048
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4o")


def test_a_completion(client):
    answer = story(client)
    assert answer.object == "text_completion"
    assert answer.model == MODEL
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24
    assert story(client).choices[0].text == answer.choices[0].text


def test_the_text_is_that_of_generate(client, typed):
    code, out, _ = typed("generate", "Once upon a time", "--solution", "--temp", 0, "--max-tokens", 24)
    assert code == 0
    assert out.strip() == ("Once upon a time" + story(client).choices[0].text).strip()


def test_without_max_tokens_it_is_sixteen(client):
    assert story(client, max_tokens=openai.omit).usage.completion_tokens == 16


def test_several_prompts_are_several_answers(client):
    prompts = ["Once upon a time", "The dog", "One day"]
    answers = story(client, prompt=prompts)
    assert [choice.index for choice in answers.choices] == [0, 1, 2]
    assert [choice.text for choice in answers.choices] == [story(client, prompt=p).choices[0].text for p in prompts]
    assert answers.usage.completion_tokens == 72


def test_tokens_for_a_prompt(client):
    answer = story(client, prompt=[[5, 6, 7], [8]], max_tokens=3)
    assert answer.usage.prompt_tokens == 4
    assert story(client, prompt=[5, 6, 7], max_tokens=3).choices[0].text == answer.choices[0].text


def test_a_chat(client):
    answer = talk(client)
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens <= 24
    parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story about a dog."}]}]
    assert talk(client, messages=parts).choices[0].message.content == answer.choices[0].message.content


def test_streams_say_what_answers_say(client):
    chunks = list(story(client, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == story(client).choices[0].text
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "length"]
    assert len({chunk.id for chunk in chunks}) == 1
    chunks = list(talk(client, stream=True))
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == talk(client).choices[0].message.content
    assert [chunk.choices[0].delta.role for chunk in chunks[:2]] == ["assistant", None]


def test_usage_in_a_stream(client):
    *chunks, last = talk(client, stream=True, stream_options={"include_usage": True})
    assert all(chunk.usage is None for chunk in chunks)
    assert last.choices == []
    assert last.usage == talk(client).usage


def test_usage_in_every_piece_as_guidellm_asks_for_it(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last = talk(client, stream=True, stream_options=options, extra_body={"ignore_eos": True})
    written = [chunk.usage.completion_tokens for chunk in chunks]
    assert written == sorted(written)
    assert written[0] > 0
    assert last.usage.completion_tokens == written[-1]


def test_stop_strings_never_show(client):
    text = story(client).choices[0].text
    stop = text[20:26]
    for stream in (False, True):
        answer = story(client, stop=[stop, "never said"], stream=stream)
        chunks = list(answer) if stream else [answer]
        assert "".join(chunk.choices[0].text for chunk in chunks) == text[: text.index(stop)]
        assert chunks[-1].choices[0].finish_reason == "stop"


def test_the_end_of_a_text(client):
    answer = story(client, max_tokens=1000)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens < 1000


def test_a_seed_says_which_answers(client):
    texts = [[choice.text for choice in story(client, n=3, temperature=1.0, seed=seed).choices] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) > 1
    parts = ["", "", ""]
    for chunk in story(client, n=3, temperature=1.0, seed=1, stream=True):
        parts[chunk.choices[0].index] += chunk.choices[0].text
    assert parts == texts[0]


def test_log_probabilities(client):
    found = story(client, logprobs=3, max_tokens=5).choices[0]
    assert "".join(found.logprobs.tokens) == found.text
    for token, logprob, top in zip(
        found.logprobs.tokens, found.logprobs.token_logprobs, found.logprobs.top_logprobs, strict=True
    ):
        assert logprob == max(top.values()) == top[token] <= 0
        assert len(top) == 3
    assert found.logprobs.text_offset[1] == len(found.logprobs.tokens[0])


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities_of_a_chat(client, stream):
    answer = talk(client, logprobs=True, top_logprobs=2, max_completion_tokens=5, stream=stream)
    chunks = list(answer) if stream else [answer]
    scored = [one for chunk in chunks for one in chunk.choices[0].logprobs.content]
    assert len(scored) == 5
    assert (
        bytes(byte for one in scored for byte in one.bytes).decode()
        == talk(client).choices[0].message.content[: sum(len(one.token) for one in scored)]
    )
    assert all(one.top_logprobs[0].logprob == pytest.approx(one.logprob) for one in scored)


def test_an_echoed_prompt_with_its_log_probabilities(client):
    """As vLLM and OpenAI have it: nothing for the first token; and the same without new tokens, or in a stream."""
    text = story(client).choices[0].text
    answer = story(client, max_tokens=0, echo=True, logprobs=1, prompt="Once upon a time" + text)
    found = answer.choices[0]
    assert (found.text, found.finish_reason) == ("Once upon a time" + text, "length")
    assert answer.usage.completion_tokens == 0
    assert found.logprobs.token_logprobs[0] is found.logprobs.top_logprobs[0] is None
    assert found.logprobs.text_offset[-1] + len(found.logprobs.tokens[-1]) == len(found.text)
    own = story(client, logprobs=1, max_tokens=5).choices[0].logprobs
    begun = answer.usage.prompt_tokens - 24
    assert found.logprobs.tokens[begun : begun + 5] == own.tokens
    assert found.logprobs.token_logprobs[begun : begun + 5] == pytest.approx(own.token_logprobs, abs=1e-4)
    ended = story(client, max_tokens=1, echo=True, logprobs=1, logit_bias={"2047": 100}).choices[0]
    assert (ended.finish_reason, ended.text) == ("stop", "Once upon a time")
    assert len(ended.logprobs.tokens) == begun + 1  # with the end token, as lm-eval expects
    stream = list(story(client, max_tokens=2, echo=True, logprobs=1, stream=True))
    whole = story(client, max_tokens=2, echo=True, logprobs=1).choices[0]
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.text
    offsets = [at for chunk in stream for at in chunk.choices[0].logprobs.text_offset]
    assert offsets == whole.logprobs.text_offset


def test_log_probabilities_of_a_prompt_as_vllm_has_them(client):
    found = story(client, max_tokens=1, extra_body={"prompt_logprobs": 2}).choices[0].prompt_logprobs
    assert found[0] is None
    assert {"rank", "logprob", "decoded_token"} == next(iter(found[1].values())).keys()
    assert [one["rank"] for one in found[2].values()][:2] == [1, 2]
    assert talk(client, max_completion_tokens=1, extra_body={"prompt_logprobs": 0}).prompt_logprobs[0] is None


def test_what_changes_the_logits(client, port):
    dog = client.post("/completions", body={**ASKED, "logit_bias": {"537": 100}}, cast_to=object)
    assert dog["choices"][0]["text"] == " dog dog"
    often = story(client, max_tokens=200, extra_body={"ignore_eos": True}).choices[0].text.split()
    seldom = story(client, max_tokens=200, extra_body={"ignore_eos": True}, frequency_penalty=2, presence_penalty=2)
    assert len(set(seldom.choices[0].text.split())) > len(set(often))
    ended = story(client, max_tokens=400)
    count = ended.usage.completion_tokens
    longer = story(client, max_tokens=400, extra_body={"min_tokens": count + 5})
    assert longer.usage.completion_tokens >= count + 5
    assert longer.choices[0].text.startswith(ended.choices[0].text)
    token = converted(port, "/tokenize", prompt=ended.choices[0].text)["tokens"][3]
    cut = story(client, extra_body={"stop_token_ids": [token]})
    assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("stop", 3)


def test_json(client):
    """Each request of a batch follows its own schema, and the others none."""
    legs = {"properties": {"legs": {"type": "integer", "minimum": 0, "maximum": 8}}, "required": ["legs"]}
    flags = {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}
    asked = [with_schema(legs), with_schema({"enum": ["red", "green"]}), with_schema(flags), {}]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda more: talk(client, max_completion_tokens=60, **more), asked))
    texts = [each.choices[0].message.content for each in found]
    assert json.loads(texts[0])["legs"] in range(9)
    assert json.loads(texts[1]) in ("red", "green")
    assert all(isinstance(each, bool) for each in json.loads(texts[2]))
    assert texts[3] == talk(client, max_completion_tokens=60).choices[0].message.content
    anything = talk(client, max_completion_tokens=9, response_format={"type": "json_object"}).choices[0].message.content
    assert anything.startswith("{")


def test_json_with_samples_and_a_bias(client, port):
    """Every sample follows the schema; a bias chooses among what it allows, and allows nothing else."""
    colors = with_schema({"enum": ["red", "green", "blue"]})
    answer = talk(client, temperature=2.0, n=4, seed=3, **colors)
    assert all(json.loads(choice.message.content) in ("red", "green", "blue") for choice in answer.choices)
    letters = converted(port, "/tokenize", prompt="g", model=MODEL)["tokens"] + [537]  # dog, which no text contains
    biased = talk(client, logit_bias=dict.fromkeys(map(str, letters), 100), **colors)
    assert biased.choices[0].message.content == '"green"'


def test_special_tokens_and_tools_that_are_not_called(client):
    for skip, text in ((True, ""), (False, "<|im_end|><|im_end|>")):
        more = {"extra_body": {"skip_special_tokens": skip, "ignore_eos": True}, "logit_bias": {"2047": 100}}
        assert talk(client, max_completion_tokens=2, **more).choices[0].message.content == text
    tools = [{"type": "function", "function": {"name": "weather"}}]
    more = {"chat_template_kwargs": {"enable_thinking": False}, "add_generation_prompt": True}
    assert talk(client, tools=tools, tool_choice="none", extra_body=more).choices == talk(client).choices


def test_tokens_and_texts(port):
    """The fields of vLLM."""
    found = converted(port, "/tokenize", prompt="Hello dog", return_token_strs=True)
    assert found == {"count": 2, "max_model_len": 2048, "tokens": found["tokens"], "token_strs": ["Hello", " dog"]}
    assert converted(port, "/detokenize", tokens=found["tokens"]) == {"prompt": "Hello dog"}
    chat = [converted(port, "/tokenize", messages=SAID, add_generation_prompt=each)["count"] for each in (True, False)]
    assert chat[0] > chat[1]
    assert sent(port, {}, path="/tokenize")[1]["message"] == "expected either prompt or messages"
    assert sent(port, {"tokens": [10**6]}, path="/detokenize")[0] == 400


def test_little_memory():
    """Without max_tokens an answer is bounded by memory; a larger max_tokens gets OpenAI's code."""
    with serving("--memory", "1") as port, client_of(port) as client:
        limit = client.models.retrieve(MODEL).max_model_len
        assert limit < 2048
        assert talk(client, messages=SAID, max_completion_tokens=openai.omit).choices[0].finish_reason == "stop"
        answer = talk(client, max_completion_tokens=openai.omit, extra_body={"ignore_eos": True})
        assert answer.usage.total_tokens == limit
        omitted = {"max_completion_tokens": openai.omit, "extra_body": {"min_tokens": limit}}
        for more in ({"max_completion_tokens": limit}, omitted):
            with pytest.raises(openai.BadRequestError, match="more --memory") as refused:
                talk(client, **more)
            assert refused.value.code == "context_length_exceeded"


@pytest.mark.skipif(not shutil.which("curl"), reason="not run here: there is no curl")
def test_curl(port):
    body = json.dumps({"model": MODEL, "prompt": "Once", "max_tokens": 4, "stream": True})
    command = ["curl", "-sSN", "-i", f"http://127.0.0.1:{port}/v1/completions", "-H", "Content-Type: application/json"]
    shown = subprocess.run([*command, "-d", body], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "text/event-stream" in shown
    assert "access-control" not in shown.lower()
    assert 1 <= shown.count("\ndata: {") <= 4  # what comes while the one before is sent comes with it
    assert shown.endswith("data: [DONE]\n\n")


def test_the_page_and_the_figures(port):
    with urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
        assert "page/chat.js" in answer.read().decode()
    before = figures(port)["vllm:time_to_first_token_seconds_count"]
    with client_of(port) as client:
        story(client)
    assert figures(port)["vllm:time_to_first_token_seconds_count"] == before + 1


# What it refuses


def sent(port, body, method="POST", path="/v1/completions", **headers):
    """The status and the error of a request, as bytes or as an object."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, raw, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())["error"]
    connection.close()
    return found


ASKED = {"model": MODEL, "prompt": "Once", "max_tokens": 2}
SAID = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "gpt-4o"}, 404, "gpt-4o"),
        ({"model": None}, 400, "model"),
        ({"prompt": ""}, 400, "empty"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": [[]]}, 400, "empty"),
        ({"prompt": [1, 10**6]}, 400, "1000000"),
        ({"prompt": [-1]}, 400, "prompt"),
        ({"prompt": [True]}, 400, "prompt"),
        ({"prompt": {"a": 1}}, 400, "prompt"),
        ({"prompt": "\ud800"}, 400, "surrogate"),
        ({"prompt": "dog " * 3000}, 400, "context"),
        ({"prompt": "x" * 900_000}, 400, "context"),
        ({"max_tokens": 10**6}, 400, "context"),
        ({"max_tokens": -1}, 400, "max_tokens: expected an integer of at least 0, not -1"),
        ({"max_tokens": "many"}, 400, "max_tokens"),
        ({"temperature": -1}, 400, "temperature"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"temperature": 2.5}, 400, "temperature"),
        ({"n": "2"}, 400, "n:"),
        ({"n": True}, 400, "n:"),
        ({"seed": 2**63}, 400, "seed"),
        ({"stream": "yes"}, 400, "stream:"),
        ({"stop": "x" * 1001}, 400, "1000"),
        ({"best_of": 3}, 400, "best_of"),
        ({"logit_bias": {"5": 101}}, 400, "logit_bias"),
        ({"logit_bias": {"x": 1}}, 400, "expected ids as strings"),
        ({"logit_bias": {"999999": 1}}, 400, "from 0 to 2047"),
        ({"stop_token_ids": [10**6]}, 400, "from 0 to 2047"),
        ({"stop_token_ids": [5] * 200}, 400, "at most 128"),
        ({"min_tokens": 3}, 400, "at most max_tokens, which is 2"),
        ({"prompt_logprobs": 1, "stream": True}, 400, "stream to be false"),
        ({"prompt": ["dog", 5]}, 400, "prompt: expected a string"),
        ({"\ud800": 1}, 400, "Unrecognized request argument supplied: \\ud800"),
        ({f"k{number}": 1 for number in range(50_000)}, 400, "k0"),
        ({"top_p": 2}, 400, "top_p"),
        ({"n": 0}, 400, "n:"),
        ({"n": 128}, 400, "at most 72 are admitted"),
        ({"stop": ""}, 400, "stop string"),
        ({"stop": list("abcde")}, 400, "at most 4"),
        ({"stop": [1]}, 400, "stop"),
        ({"logprobs": 99}, 400, "logprobs"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options"),
        ({"presence_penalty": 3}, 400, "presence_penalty: expected a number from -2 to 2, not 3"),
        ({"echo": "yes"}, 400, "echo: expected true or false"),
        ({"guided_json": {}}, 400, "guided_json. It is a field of vLLM"),
        ({"n_predict": 5}, 400, "llama.cpp"),
        ({"no_such_field": 1}, 400, "Unrecognized request argument supplied: no_such_field"),
    ],
    ids=lambda value: f"{value!a:.40}",
)
def test_a_completion_that_is_refused(port, change, status, words):
    body = {name: value for name, value in {**ASKED, **change}.items() if value is not None}
    got, error = sent(port, body)
    assert got == status
    assert words in error["message"]
    assert len(error["message"]) <= 300
    assert error["type"] == "invalid_request_error"
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "king", "content": "hi"}]}, "role"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
            "of type text",
        ),
        ({"top_logprobs": 2}, "top_logprobs needs logprobs"),
        ({"tools": [{"type": "function"}]}, "Missing required parameter: tools.0.function"),
        ({"tool_choice": "required"}, "tool_choice needs tools"),
        ({"max_tokens": 0}, "max_tokens: expected an integer of at least 1, not 0"),
        ({"max_tokens": 5000}, "maximum context length is 2048 tokens"),
        ({"response_format": {"type": "xml"}}, 'response_format: expected {"type": "text"}'),
        ({"response_format": {"type": "json_schema"}}, "json_schema"),
        (with_schema({"type": "string", "format": "date"}), "response_format: #: format is not supported for string"),
        (with_schema({"properties": {"a": {"oneOf": []}}}), "response_format: #/properties/a: oneOf is not supported"),
        (with_schema({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}), "no finite text"),
        (with_schema({"type": "string", "pattern": "(?:a|b)*a(?:a|b){90}"}), "states"),
        ({**with_schema({}), "min_tokens": 3}, "omit min_tokens"),
        ({"prompt": "hi"}, "Unrecognized request argument supplied: prompt"),
    ],
    ids=lambda value: f"{value!a:.40}",
)
def test_a_chat_that_is_refused(port, change, words):
    status, error = sent(port, {"model": MODEL, "messages": SAID, **change}, path="/v1/chat/completions")
    assert status == 400
    assert words in error["message"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "not JSON"),
        (b'{"model": ', 400, "not JSON"),
        (b"[]", 400, "not a JSON object"),
        (b'{"temperature": NaN}', 400, "not JSON"),
        (b'{"model": "\xff\xfe"}', 400, "not UTF-8"),
        (b"[" * 100_000, 400, "nested"),
        (b'{"n": ' + b"9" * 10_000 + b"}", 400, "JSON"),
        (b" " * 2_000_000, 413, "larger"),
    ],
    ids=lambda value: f"{value!a:.30}",
)
def test_a_body_that_is_refused(port, body, status, words):
    got, error = sent(port, body)
    assert got == status
    assert words in error["message"]


def test_null_is_as_good_as_not_said(port, client):
    """Clients fill in what nobody has set."""
    names = ("n", "stop", "stream", "echo", "logprobs", "best_of", "seed", "stream_options", "prediction")
    nulls = dict.fromkeys(names)
    found = client.post("/completions", body={**ASKED, **nulls, "temperature": 0}, cast_to=object)
    assert found["choices"][0]["text"] == story(client, prompt="Once", max_tokens=2).choices[0].text


def test_a_temperature_next_to_nothing(client):
    assert story(client, temperature=1e-300).choices[0].text == story(client).choices[0].text


def test_other_refusals(port):
    assert sent(port, ASKED, path="/v1/completions/")[0] == 404
    assert sent(port, ASKED, **{"Content-Encoding": "gzip"})[0] == 415
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"http://127.0.0.1:{port}/health", method="DELETE"), timeout=10)
    assert "GET" in refused.value.headers["Allow"]
    assert sent(port, ASKED, path="/v1/embeddings")[0] == 404
    assert sent(port, b"", method="GET", path="/v1/models/gpt")[0] == 404
    assert sent(port, b"", method="GET")[0] == 405
    assert sent(port, ASKED, **{"Content-Type": "text/plain"})[0] == 415
    assert sent(port, ASKED, Host="rebound.example")[0] == 421


def test_it_lives_on(port, client):
    """After all that."""
    assert story(client).choices[0].text
    assert idle(port)


# Who behaves badly


def test_who_goes_away_frees_the_pages(port, client):
    """A stream that is closed, and a client whose connection breaks while it waits for a whole answer."""
    with client.completions.create(stream=True, **LONG) as stream:
        next(iter(stream))
        now = figures(port)
        assert now["vllm:num_requests_running"] == 1
        assert now["vllm:kv_cache_usage_perc"] > 0
    assert idle(port)
    body = json.dumps({"model": MODEL, "prompt": "Once", "max_tokens": 1900, "ignore_eos": True, "n": 4}).encode()
    with raw(port, body):
        until = time.monotonic() + 10
        while figures(port)["vllm:num_requests_running"] < 4:
            assert time.monotonic() < until
            time.sleep(0.02)
    assert idle(port)
    assert figures(port)['vllm:request_success_total{finished_reason="abort"}'] >= 5


@contextmanager
def raw(port, body, length=None):
    """A connection with a request on it, of which nothing is read; its body may be said to be longer than it is."""
    with socket.create_connection(("127.0.0.1", port)) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = ["POST /v1/completions HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        found.sendall("\r\n".join([*head, f"Content-Length: {length or len(body)}", "", ""]).encode() + body)
        yield found


def test_who_reads_nothing_stops_nobody(port, client):
    body = json.dumps({"model": MODEL, "prompt": "Once", "max_tokens": 600, "ignore_eos": True, "stream": True})
    with raw(port, body.encode()), raw(port, b'{"model": "never comes to its end'):
        assert story(client).choices[0].text
        assert idle(port, 60)


def test_who_sends_half_a_request(port, client):
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n")
        assert story(client).choices[0].text
    with socket.create_connection(("127.0.0.1", port)) as odd:
        odd.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        found = http.client.HTTPResponse(odd)
        found.begin()
        assert (found.status, json.loads(found.read())["error"]["type"]) == (400, "invalid_request_error")


# Keys, limits and the end


def test_a_key_and_back_pressure():
    with serving("--api-key", "open sesame", "--max-num-seqs", "1", "--waiting", "0") as port:
        with client_of(port, "open says me") as stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        with client_of(port, "open sesame") as client:
            assert client.models.list().data
            with client.completions.create(stream=True, **LONG) as stream:
                next(iter(stream))
                with pytest.raises(openai.RateLimitError) as refused:
                    story(client)
                assert int(refused.value.response.headers["retry-after"]) >= 1
            with pytest.raises(openai.BadRequestError, match="at most 1 are admitted"):
                story(client, n=2)
            until = time.monotonic() + 10
            while True:
                with suppress(openai.RateLimitError):
                    assert story(client).choices[0].text
                    break
                assert time.monotonic() < until
                time.sleep(0.05)


@contextmanager
def started(*more):
    """A server of one's own, and its port."""
    command = [word.replace("{port}", "0") for word in SERVE]
    process = subprocess.Popen([*command, *more], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        yield process, int(re.search(r":(\d+)/v1", process.stderr.readline())[1])
    finally:
        process.kill()
        process.wait()


def is_draining(port):
    """Whether new connections are answered, and told that the server is shutting down."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            urlopen(f"http://127.0.0.1:{port}/health", timeout=10).close()
        except HTTPError as error:
            return error.code == 503
    return False


@pytest.mark.parametrize(("grace", "tokens"), [("30", 1500), ("0.2", 1900)], ids=["ends", "is cut off"])
def test_it_shuts_down(grace, tokens):
    """Who is there may end in so many seconds; who does not is told so."""
    with started("--grace", grace) as (process, port):
        with (
            client_of(port) as client,
            client.completions.create(stream=True, **{**LONG, "max_tokens": tokens}) as stream,
        ):
            chunks = iter(stream)
            next(chunks)
            process.send_signal(signal.SIGINT)
            if tokens == 1500:
                assert is_draining(port)
                assert list(chunks)[-1].choices[0].finish_reason == "length"
            else:
                with pytest.raises(openai.APIError, match="shutting down"):
                    list(chunks)
        assert process.wait(20) == 130
        assert process.stderr.read().strip() == "interrupted"


def test_whoever_asks_twice_waits_no_longer():
    """Neither for a long answer, nor for half a body; and what is sent is no reason for a traceback."""
    with started("--grace", "500") as (process, port), client_of(port) as client:
        with socket.create_connection(("127.0.0.1", port)) as odd:  # refused before its body, which is none
            odd.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert b"415" in odd.recv(100)
            odd.sendall(b"zz\r\n")
        with raw(port, b'{"model": ', 100) as half, client.completions.create(stream=True, **LONG) as stream:
            chunks = iter(stream)
            next(chunks)
            process.send_signal(signal.SIGTERM)
            assert b"503" in half.recv(100)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(openai.APIError, match="shutting down"):
                list(chunks)
        assert process.wait(60) == 143
        assert process.stderr.read() == ""


def test_small_packets_are_sent_at_once():
    """Without TCP_NODELAY, each waits for the client's delayed acknowledgement of the one before."""

    async def nodelay() -> int:
        found = asyncio.get_running_loop().create_future()

        class Accepted(asyncio.Protocol):
            def connection_made(self, transport):
                accepted = transport.get_extra_info("socket")
                found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

        server = await asyncio.get_running_loop().create_server(Accepted, sock=(listening := listen("127.0.0.1", 0)))
        async with server:
            _, writer = await asyncio.open_connection(*listening.getsockname())
            answer = await asyncio.wait_for(found, 10)
            writer.close()
        return int(answer)

    assert asyncio.run(nodelay())


def test_what_cannot_be_served(typed, tmp_path):
    """One line each."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = typed("serve", "--solution", "--port", taken.getsockname()[1])
    assert code == 2
    assert "Try another --port" in err
    for words in (
        ["--model", tmp_path / "nothing"],
        ["--stage", "fastest"],
        ["--host", "nowhere.invalid"],
        ["--port", 70000],
        ["--api-key", ""],
        ["--memory", 0],
        ["--memory", 10**9],
    ):
        code, out, err = typed("serve", "--solution", "--port", 0, *words)
        assert (code, out) == (2, ""), words
        assert len(err.splitlines()) <= 8, err

"""Tools, models and clocks that follow a script, and what a run of a loop looks like, for the tasks of day 3."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

PROPERTIES = {
    "path": {"type": "string"},
    "first": {"type": "integer"},
    "share": {"type": "number"},
    "all": {"type": "boolean"},
    "names": {"type": "array", "items": {"type": "string"}},  # of items and members, nothing is checked
    "options": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]},
    "limit": {"type": ["integer", "null"]},
    "mode": {"type": "string", "enum": ["text", "bytes"]},
    "level": {"enum": [1, 2, None]},
    "any": {},
}


class Probe:
    """A tool that returns its arguments as JSON, or what `does` returns."""

    def __init__(
        self, name: str = "probe", required: Sequence[str] = (), does: Callable[..., str] | None = None
    ) -> None:
        self.name, self.description = name, "Return the arguments."
        self.parameters = {"type": "object", "properties": PROPERTIES, "required": list(required)}
        self.does, self.seen = does or (lambda arguments: json.dumps(arguments)), list[Any]()

    def call(self, arguments: dict[str, Any]) -> str:
        """Return the result."""
        self.seen.append(arguments)
        return self.does(arguments)


def raising(error: BaseException) -> Callable[[Any], str]:
    """Return a function that raises an error."""

    def run(arguments: Any) -> str:
        raise error

    return run


class Case(NamedTuple):
    """A call, and what its answer must be: a text, or the words that an error must contain."""

    name: str
    arguments: str
    tools: Callable[[], list[Probe]]
    result: str | None  # None for an error
    words: tuple[str, ...] = ()
    error: str = ""
    longest: int = 20_000


def _plain() -> list[Probe]:
    return [Probe(), Probe("other", ["path"])]


def _bare(*keys: str) -> Callable[[], list[Probe]]:
    """Return a function that returns a tool whose schema has only its type and these keys."""

    def make() -> list[Probe]:
        tool = Probe()
        tool.parameters = {key: value for key, value in tool.parameters.items() if key in ("type", *keys)}
        return [tool]

    return make


def _failing(error: BaseException) -> Callable[[], list[Probe]]:
    return lambda: [Probe(does=raising(error))]


def _long(count: int) -> Callable[[], list[Probe]]:
    return lambda: [Probe(does=lambda arguments: ("0123456789" * count)[:count])]


def _cut(count: int, longest: int) -> str:
    text, half = ("0123456789" * count)[:count], longest // 2
    return f"{text[:half]}\n[{count - 2 * half} characters omitted]\n{text[count - half :]}"


EMPTY = '{"path": "", "first": 0, "all": false, "names": [], "options": {}, "limit": null}'
CASES = {
    "no arguments": Case("probe", "{}", _plain, "{}"),
    "all arguments": Case(
        "probe",
        '{"path": "a.py", "first": -3, "share": 0.5, "all": true, "names": [1], "options": {"a": null}}',
        _plain,
        '{"path": "a.py", "first": -3, "share": 0.5, "all": true, "names": [1], "options": {"a": null}}',
    ),
    "white space": Case("probe", ' {\n "path" : "a" } ', _plain, '{"path": "a"}'),
    "the second tool": Case("other", '{"path": "a"}', _plain, '{"path": "a"}'),
    "an integer as a number": Case("probe", '{"share": 3}', _plain, '{"share": 3}'),
    "one of two types": Case("probe", '{"limit": null}', _plain, '{"limit": null}'),
    "the other of two types": Case("probe", '{"limit": 5}', _plain, '{"limit": 5}'),
    "one of the values": Case("probe", '{"mode": "bytes", "level": 2}', _plain, '{"mode": "bytes", "level": 2}'),
    "a value in another form": Case("probe", '{"level": 1.0}', _plain, '{"level": 1.0}'),
    "no type": Case("probe", '{"any": [true]}', _plain, '{"any": [true]}'),
    "a schema of the type alone": Case("probe", "{}", _bare(), "{}"),
    "a schema without `required`": Case("probe", '{"path": "a"}', _bare("properties"), '{"path": "a"}'),
    "a malformed call": Case("probe", "{}", _plain, None, ("a brace is missing",), error="a brace is missing"),
    "a malformed call of no tool": Case("", "{", _plain, None, ("a brace is missing",), error="a brace is missing"),
    "no such tool": Case("probes", "{}", _plain, None, ("probes", "probe, other")),
    "no JSON": Case("probe", '{"path": "a"', _plain, None, ("JSON",)),
    "no text at all": Case("probe", "", _plain, None, ("JSON",)),
    "brackets without an end": Case("probe", "[" * 100_000, _plain, None, ("JSON",)),
    "an argument of a deep list": Case("probe", f'{{"any": {"[" * 100_000}', _plain, None, ("JSON",)),
    "a list": Case("probe", '["a.py"]', _plain, None, ("JSON", "object")),
    "a list for a tool that needs more": Case("other", '["path"]', _plain, None, ("JSON", "object")),
    "a number alone": Case("probe", "3", _plain, None, ("JSON", "object")),
    "null alone": Case("probe", "null", _plain, None, ("JSON", "object")),
    "an empty list": Case("probe", "[]", _plain, None, ("JSON", "object")),
    "required arguments that are empty": Case("probe", EMPTY, lambda: [Probe(required=json.loads(EMPTY))], EMPTY),
    "a missing argument": Case("other", '{"first": 3}', _plain, None, ("path",)),
    "an unknown argument": Case("probe", '{"file": "a.py"}', _plain, None, ("file", "path, first, share")),
    "an argument of a tool that has none": Case("probe", '{"file": "a.py"}', _bare(), None, ("file",)),
    "the second required argument is missing": Case(
        "probe", '{"path": "a"}', lambda: [Probe(required=["path", "first"])], None, ("first",)
    ),
    "a text as a number": Case("probe", '{"first": "3"}', _plain, None, ("first", "integer")),
    "a fraction as an integer": Case("probe", '{"first": 3.5}', _plain, None, ("first", "integer")),
    "true as an integer": Case("probe", '{"first": true}', _plain, None, ("first", "integer")),
    "false as a number": Case("probe", '{"share": false}', _plain, None, ("share", "number")),
    "null as a text": Case("probe", '{"path": null}', _plain, None, ("path", "string")),
    "a number as a boolean": Case("probe", '{"all": 1}', _plain, None, ("all", "boolean")),
    "a text as a list": Case("probe", '{"names": "a"}', _plain, None, ("names", "array")),
    "a list as an object": Case("probe", '{"options": []}', _plain, None, ("options", "object")),
    "none of two types": Case("probe", '{"limit": "5"}', _plain, None, ("limit", "integer", "null")),
    "none of the values": Case("probe", '{"mode": "lines"}', _plain, None, ("mode", "text", "bytes")),
    "true for a 1 of the values": Case("probe", '{"level": true}', _plain, None, ("level", "1", "2")),
    "none of the numbers": Case("probe", '{"level": 3}', _plain, None, ("level", "1", "2")),
    "a list for one of the values": Case("probe", '{"level": [1]}', _plain, None, ("level", "1", "2")),
    "the second of two": Case("probe", '{"path": "a", "first": "b"}', _plain, None, ("first", "integer")),
    "a ValueError": Case("probe", "{}", _failing(ValueError("no file a.py")), None, ("no file a.py",)),
    "a KeyError": Case("probe", "{}", _failing(KeyError("a.py")), None, ("KeyError", "a.py")),
    "an OSError": Case("probe", "{}", _failing(FileNotFoundError("a.py")), None, ("FileNotFoundError", "a.py")),
    "a ZeroDivisionError": Case("probe", "{}", _failing(ZeroDivisionError("by zero")), None, ("ZeroDivisionError",)),
    "an empty result": Case("probe", "{}", _long(0), ""),
    "a result that just fits": Case("probe", "{}", _long(40), _cut(40, 80)[:0] + ("0123456789" * 4), longest=40),
    "a long result": Case("probe", "{}", _long(1234), _cut(1234, 40), longest=40),
    "a result too long by one": Case("probe", "{}", _long(41), _cut(41, 40), longest=40),
    "an odd limit": Case("probe", "{}", _long(100), _cut(100, 7), longest=7),
    "a limit of one": Case("probe", "{}", _long(100), _cut(100, 1), longest=1),
    "the usual limit": Case("probe", "{}", _long(20_001), _cut(20_001, 20_000)),
}


# Runs


def asks(*calls: tuple[str, str], text: str | None = None, tokens: int = 10, finish: str = "tool_calls") -> Any:
    """Return an answer with calls: pairs of a name and arguments."""
    return text, calls, tokens, finish


def says(text: str | None, tokens: int = 10, finish: str = "stop") -> Any:
    """Return an answer without calls."""
    return text, (), tokens, finish


class Scene(NamedTuple):
    """A run: the model's answers, limits, and how long each answer and each call takes."""

    answers: Sequence[Any]  # or an OSError
    limits: dict[str, Any] = {}  # noqa: RUF012
    takes: float = 1.0
    call_takes: float = 0.0
    results: Sequence[str] = ()  # of the calls in turn; by default the arguments


A, B = ("probe", '{"path": "a"}'), ("probe", '{"path": "b"}')
TWIN = ("twin", A[1])  # another tool, which returns the same
ONE, TRUE = ("probe", '{"any": 1}'), ("probe", '{"any": true}')  # equal in Python, but not in JSON
SPACED = ("probe", '{ "first": 1, "path":"a"}'), ("probe", '{"path": "a", "first": 1}')
SCENES = {
    "an answer": Scene([says("Hello.")]),
    "an empty answer": Scene([says(None)]),
    "a call and an answer": Scene([asks(A), says("It is a.")]),
    "text and a call": Scene([asks(A, text="Let me look."), says("It is a.")]),
    "two calls in a step": Scene([asks(A, B), says("Both.")]),
    "calls of two steps": Scene([asks(A), asks(B), asks(A), says("Done.")]),
    "errors go back": Scene([asks(("none", "{}")), asks(("probe", "{")), asks(("probe", '{"x": 1}')), says("So.")]),
    "an answer that is cut": Scene([asks(A), says("It is", finish="length")]),
    "a call that is cut": Scene([asks(("probe", '{"path": "a'), finish="length"), says("Sorry.")]),
    "no steps": Scene([says("Hello.")], {"steps": 0}),
    "one step": Scene([asks(A), says("Done.")], {"steps": 1}),
    "as many steps as allowed": Scene([asks(A), asks(B), says("Done.")], {"steps": 3}),
    "one step too many": Scene([asks(A), asks(B), asks(A), says("Done.")], {"steps": 3}),
    "tokens": Scene([asks(A, tokens=40), asks(B, tokens=60), says("Done.")], {"tokens": 100}),
    "one token less": Scene([asks(A, tokens=40), asks(B, tokens=59), says("Done.")], {"tokens": 100}),
    "no tokens": Scene([says("Hello.")], {"tokens": 0}),
    "time": Scene([asks(A), asks(B), asks(A), says("Done.")], {"seconds": 2.0}),
    "time that just suffices": Scene([asks(A), says("Done.")], {"seconds": 1.5}),
    "no time": Scene([says("Hello.")], {"seconds": 0.0}),
    "the time is over in a step": Scene([asks(A, B, A, B)], {"seconds": 3.0}, call_takes=1.0),
    "the time is over before a call": Scene([asks(A, B)], {"seconds": 1.0}),
    "steps before tokens": Scene([asks(A, tokens=100)], {"steps": 1, "tokens": 100, "seconds": 1.0}),
    "tokens before time": Scene([asks(A, tokens=100)], {"steps": 9, "tokens": 100, "seconds": 1.0}),
    "the same step": Scene([asks(A)] * 4 + [says("Done.")]),
    "the same step twice": Scene([asks(A)] * 2 + [says("Done.")]),
    "two in a row, after another tool and another value": Scene(
        [asks(A), asks(TWIN), asks(ONE), asks(TRUE), asks(B), asks(B), says("Done.")], {"repeats": 2}, results=["1"] * 6
    ),
    "repeats interrupted": Scene([asks(A), asks(A), asks(B), asks(A), asks(A), says("Done.")]),
    "the same calls in other words": Scene(
        [asks(SPACED[0]), asks(SPACED[1]), asks(SPACED[0]), says("Done.")], results=["1"] * 3
    ),
    "other text each time": Scene([asks(A, text="One."), asks(A, text="Two."), asks(A, text="Three."), says("Done.")]),
    "other results each time": Scene([asks(A)] * 4 + [says("Done.")], results=["1", "2", "3", "4"]),
    "the third result differs": Scene([asks(A)] * 5 + [says("Done.")], results=["1", "1", "2", "2", "2"]),
    "the same call twice in a step": Scene([asks(A, A), asks(A), says("Done.")], {"repeats": 2}),
    "the same malformed call": Scene([asks(("probe", "{x"))] * 4),
    "other malformed calls": Scene([asks(("probe", "{x")), asks(("probe", "{y")), asks(("probe", "{z")), says("So.")]),
    "repeats before steps": Scene([asks(A)] * 3, {"steps": 3}),
    "the model fails": Scene([ConnectionError("refused")]),
    "the model fails later": Scene([asks(A), TimeoutError("timed out")]),
}  # fmt: skip
START = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is in a?"}]


class Clock:
    """A clock that only moves when a script moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def _answers(answers: Iterable[Any], clock: Clock, takes: float, make: Any) -> Callable[[Any, Any], Any]:
    script = iter(enumerate(answers))
    lengths = list[int]()

    def model(messages: Any, schemas: Any) -> Any:
        lengths.append(len(messages))
        number, answer = next(script)
        clock.now += takes
        if isinstance(answer, Exception):
            raise answer
        text, calls, tokens, finish = answer
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": f"call_{number}_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for i, (name, arguments) in enumerate(calls)
            ]
        return make(message, finish, tokens)

    return model


def _line(message: dict[str, Any]) -> str:
    calls = [f"{call['id']}" for call in message.get("tool_calls") or ()]
    text = str(message.get("content"))
    if text.startswith("Error: ") and "not run" not in text:
        text = "Error: ..."
    parts = [message["role"], message.get("tool_call_id", ""), text, *calls]
    return " ".join(filter(None, parts))


def played(run: Any, scene: Scene, make: Any, limits: Any) -> list[str]:
    """Run a scene, and return its conversation, its record and its outcome as lines."""
    clock, record, start = Clock(), list[str](), [dict(message) for message in START]
    results = iter(scene.results)

    def does(arguments: Any) -> str:
        clock.now += scene.call_takes
        return next(results, json.dumps(arguments))

    def note(entry: dict[str, Any]) -> None:
        if "message" in entry:
            record.append(f"record: {_line(entry['message'])}")
        else:
            record.append(f"record: {entry['stop']} {entry['detail']} {entry['steps']} {entry['tokens']}")

    tools: Any = [Probe(does=does), Probe(TWIN[0], does=does)]
    model = _answers(scene.answers, clock, scene.takes, make)
    found = run(model, start, tools, limits(**scene.limits), clock=clock, record=note)
    lines = [_line(message) for message in found.messages]
    lines.append(f"stop: {found.reason} {found.detail} {found.steps} steps {found.tokens} tokens")
    return [*lines, *record, f"the caller's list: {len(start)} messages"]


def expected_lines(scene: Scene) -> list[str]:
    """Return what a right loop does in a scene, by its rules one after the other."""
    limits = {"steps": 30, "tokens": 200_000, "seconds": 600.0, "repeats": 3, **scene.limits}
    lines, now, steps, tokens, keys = [_line(message) for message in START], 0.0, 0, 0, list[Any]()
    results, reason, detail = iter(scene.results), "", ""
    for number, answer in enumerate([*scene.answers, None]):
        over = (("steps", steps), ("tokens", tokens), ("seconds", now))
        reason = next((name for name, used in over if used >= limits[name]), "").replace("seconds", "time")
        if reason:
            break
        assert answer is not None, "the script is too short"
        now += scene.takes
        if isinstance(answer, Exception):
            reason, detail = "model", str(answer)
            break
        text, calls, used, finish = answer
        steps, tokens = steps + 1, tokens + used
        ids = [f"call_{number}_{i}" for i in range(len(calls))]
        lines.append(" ".join(["assistant", *([str(text)] if str(text) else []), *ids]))
        if not calls:
            reason = "cut" if finish == "length" else "done"
            break
        told = []
        for one, (name, arguments) in zip(ids, calls, strict=True):
            try:
                given = json.loads(arguments)
            except ValueError:
                given = None
            if now >= limits["seconds"]:
                said = "Error: not run, the time is over"
            elif name not in ("probe", TWIN[0]) or given is None or not given.keys() <= PROPERTIES.keys():
                said = "Error: ..."
            else:
                now += scene.call_takes
                said = next(results, json.dumps(given))
            told.append(said)
            lines.append(f"tool {one} {said}")
        same = [(name, _value(arguments)) for name, arguments in calls]
        keys.append((same, [(t, a[1] if t == "Error: ..." else "") for t, a in zip(told, calls, strict=True)]))
        last = keys[-limits["repeats"] :]
        if len(last) == limits["repeats"] and all(key == last[0] for key in last):
            reason = "repeats"
            break
    stop = f"{reason} {detail} {steps}"
    record = [f"record: {line}" for line in lines[len(START) :]]
    return [
        *lines,
        f"stop: {stop} steps {tokens} tokens",
        *record,
        f"record: {stop} {tokens}",
        f"the caller's list: {len(START)} messages",
    ]


def _value(arguments: str) -> Any:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)  # 1 and true differ
    except ValueError:
        return arguments

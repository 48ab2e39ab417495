"""The course's model answers random schemas of hypothesis-jsonschema: `python tests/course/random_answers.py 1000`.

Each answer is sampled at temperature 1, in batches as a server's requests are, with the masks of its schema's grammar,
and after 40 tokens with a bias to close what is open. Then jsonschema checks each answer, and llguidance each of its
masks. For maintainers; `tests/course/test_masks_against_llguidance.py` runs a few.
"""

import contextlib
import functools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.week7 import record_masks
from tests.week7.pushing import token_bytes

from tiny_llm_course.engine.serving import ServingEngine, load_scheduler
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.serving.logits import LogitOptions, LogitsProcessor

load_solution()
from tiny_llm_solution.constrained.grammar import Grammar, GrammarCompiler  # noqa: E402
from tiny_llm_solution.constrained.masking import apply_masks  # noqa: E402
from tiny_llm_solution.constrained.trie import TokenTrie, unpack  # noqa: E402
from tiny_llm_solution.serving.request import Request, SamplingParams  # noqa: E402

SIZE, END = record_masks.SIZE, record_masks.END
PROMPT = "Once upon a time, there was a frog. "
LONGEST = 1000  # tokens of an answer
# The model knows no JSON, and seldom ends a list or a number by itself: after FREE tokens, these are added to logits.
FREE, OUTSIDE, INSIDE = 40, {b",": 60.0, b"]": 100.0, b"}": 100.0}, {b'"': 100.0}  # outside and inside a string
PATTERNS = [
    "^[a-z]{1,4}$",
    "^(cat|dog)s?$",
    "^[0-9]{4}-[0-9]{2}$",
    "^[^x]{2}$",
    "^\\w{1,9}@\\w{1,9}[.]org$",
    "^(?:é|犬|\n)*$",
]
PLAIN = ["integer", "number", "boolean", "null", "string"]


def metaschema(nested: bool = True) -> dict[str, Any]:
    """Return the JSON schema of the schemas that the course supports, one level of parts deep."""

    def of(kind: Any, **keywords: Any) -> dict[str, Any]:
        given = {"type": kind if isinstance(kind, dict) else {"const": kind}, **keywords}
        return {"type": "object", "properties": given, "required": ["type"], "additionalProperties": False}

    def only(**keyword: Any) -> dict[str, Any]:
        return {"type": "object", "properties": keyword, "required": [*keyword], "additionalProperties": False}

    count, value = {"type": "integer", "minimum": 0, "maximum": 6}, {"type": "integer"}
    small = {"type": "integer", "minimum": -300, "maximum": 300}
    leaves = [
        of({"type": "array", "items": {"enum": PLAIN}, "minItems": 1, "maxItems": 3, "uniqueItems": True}),
        of("string", minLength=count, maxLength=count),
        {**of("string", pattern={"enum": PATTERNS}), "required": ["type", "pattern"]},
        of("integer", minimum=value, maximum=value),
        of("integer", exclusiveMinimum=small, exclusiveMaximum=small),
        of("number", minimum=small, maximum=value),
        only(enum={"type": "array", "minItems": 1, "maxItems": 4}),
        only(const=True),
        only(**{"$ref": {"const": "#"}}),
    ]
    if not nested:
        return {"anyOf": leaves}
    inner = metaschema(nested=False)
    properties = {"type": "object", "additionalProperties": inner, "minProperties": 1, "maxProperties": 4}
    which = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 3}, "maxItems": 4}
    parts = [
        {**of("object", properties=properties, required=which), "required": ["type", "properties", "required"]},
        of("object", additionalProperties=inner),
        of("array", items=inner, minItems=count, maxItems=count),
        only(anyOf={"type": "array", "items": inner, "minItems": 1, "maxItems": 3}),
    ]
    return {"anyOf": [*parts, *leaves]}


def grafted(schema: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose last part is another one: hypothesis-jsonschema takes seconds for deeper metaschemas."""
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"][:-1], grafted(schema["anyOf"][-1], inner)]}
    if "properties" in schema:
        name = list(schema["properties"])[-1]
        return {**schema, "properties": {**schema["properties"], name: grafted(schema["properties"][name], inner)}}
    key = next((key for key in ("items", "additionalProperties") if key in schema), None)
    return {**schema, key: grafted(schema[key], inner)} if key else inner


def repaired(schema: Any) -> Any:
    """Return a schema whose bounds are in order, and whose `required` has names; a metaschema cannot demand either."""
    if isinstance(schema, list):
        return [repaired(each) for each in schema]
    if not isinstance(schema, dict) or "enum" in schema or "const" in schema:
        return schema
    found = {key: repaired(value) for key, value in schema.items() if key != "properties"}
    for low, high in (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum")):
        if low in found and high in found:
            found[low], found[high] = sorted((found[low], found[high]))
    if "exclusiveMinimum" in found and "exclusiveMaximum" in found:
        found["exclusiveMaximum"] = found["exclusiveMinimum"] + 2 + abs(found["exclusiveMaximum"])
    if "properties" in schema:
        names = list(schema["properties"])
        found["properties"] = {name: repaired(value) for name, value in schema["properties"].items()}
        found["required"] = [names[i] for i in sorted({*schema["required"]}) if i < len(names)]
        found["additionalProperties"] = False
    return found


def _more(elements: Any) -> bool:
    if not hasattr(elements, "each"):
        elements.each = iter(elements.__enter__())
    return next(elements.each, False) is None


def draw_schemas(count: int, number: int, compiler: GrammarCompiler, refused: Counter[str]) -> dict[str, Grammar]:
    """Return different random schemas, as JSON, with their grammars; count those that cannot be compiled."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st
    from hypothesis.internal.conjecture.utils import many
    from hypothesis_jsonschema import from_schema

    if not hasattr(many, "more"):  # which hypothesis-jsonschema 0.23.1 calls, and newer versions of hypothesis lack
        many.more = _more  # type: ignore[attr-defined]
    found = dict[str, Grammar]()

    @seed(number)
    @settings(
        max_examples=9 * count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(from_schema(metaschema()), min_size=1, max_size=3))
    def draw(parts: list[Any]) -> None:
        text = json.dumps(repaired(functools.reduce(grafted, parts)))
        if text not in found:
            try:
                found[text] = compiler.compile(json.loads(text))
            except ValueError as error:
                refused[str(error).partition(": ")[2]] += 1
        if len(found) == count:
            raise _Enough

    with contextlib.suppress(_Enough):
        draw()
    return found


class _Enough(Exception):
    pass


@dataclass
class Result:
    """What became of some schemas."""

    valid: int = 0
    cut: list[str] = field(default_factory=list)  # schemas whose answer did not end within LONGEST tokens
    invalid: list[tuple[str, str]] = field(default_factory=list)  # schemas and answers
    steps: int = 0
    different: list[tuple[str, str, list[str], list[str]]] = field(default_factory=list)  # masks: schema, text, tokens
    unknown: Counter[str] = field(default_factory=Counter)  # what llguidance said of schemas that it does not take
    refused: Counter[str] = field(default_factory=Counter)  # why schemas were drawn, but not answered

    def __str__(self) -> str:
        """Return a line for each kind of result."""
        return (
            f"answers: {self.valid} valid, {len(self.invalid)} invalid, {len(self.cut)} cut at {LONGEST} tokens\n"
            f"masks: {self.steps}, of which {len(self.different)} differ from llguidance's\n"
            f"not answered, as they allow no finite text: {self.refused.total()}\n"
            f"not compared, as llguidance refuses the schema: {self.unknown.total()}"
        )


def answer(grammars: dict[str, Grammar], engine: ServingEngine, processor: LogitsProcessor) -> list[Request]:
    """Return a finished request for each grammar."""
    options = dict[Request, LogitOptions]()
    outside, inside = (
        {token: bias[text] for token, text in token_bytes().items() if text in bias} for bias in (OUTSIDE, INSIDE)
    )
    for number, grammar in enumerate(grammars.values()):
        prompt = engine.tokenizer.encode(PROMPT)
        request = Request(prompt, LONGEST, SamplingParams(1.0, seed=number), eos_ids=(END,))
        options[request] = LogitOptions(grammar=grammar)
        processor.ask(request, options[request])
        engine.scheduler.submit(request)
    while engine.scheduler.waiting or engine.scheduler.running:
        for request in engine.scheduler.running:
            if len(request.output) >= FREE:
                text = b"".join(token_bytes()[token] for token in request.output)
                quotes = re.sub(rb"\\.", b"", text).count(b'"')
                options[request].bias = inside if quotes % 2 else outside | {END: 100.0}
        engine.scheduler.step()
    return list(options)


def check(schema: str, grammar: Grammar, request: Request, theirs: Any, result: Result) -> None:
    """Add what jsonschema says of an answer, and llguidance of its masks."""
    import jsonschema  # type: ignore[import-untyped]
    import llguidance

    text = b"".join(token_bytes()[token] for token in request.output)
    if request.finish_reason == "length":
        result.cut.append(schema)
    else:
        try:
            jsonschema.validate(json.loads(text), json.loads(schema))
            result.valid += 1
        except (ValueError, jsonschema.ValidationError):
            result.invalid.append((schema, text.decode(errors="replace")))
    matcher = llguidance.LLMatcher(theirs, record_masks.grammar_of(json.loads(schema)))
    if matcher.is_error():
        result.unknown[matcher.get_error().strip().splitlines()[0][:100]] += 1
        return
    state, read = grammar.start, b""
    for token in [*request.output, END]:
        expected = unpack(np.frombuffer(matcher.compute_bitmask(), np.uint32)[: -(-SIZE // 32)].copy(), SIZE)
        actual = unpack(grammar.mask(state), SIZE)
        result.steps += 1
        if not np.array_equal(actual, expected):
            more, less = (
                [ascii(token_bytes().get(t, b"the end")) for t in np.flatnonzero(a & ~b).tolist()]
                for a, b in ((actual, expected), (expected, actual))
            )
            result.different.append((schema, ascii(read), more, less))
        if token == END or not matcher.consume_token(token):
            break
        state, read = grammar.advance(state, token), read + token_bytes()[token]


def run(count: int) -> Iterator[Result]:
    """Yield what became of the schemas so far, after each round of up to 50."""
    engine, result = load_scheduler(None, solution=True), Result()
    processor = LogitsProcessor(engine.scheduler)
    processor.masked = apply_masks
    trie = TokenTrie(engine.tokenizer.token_bytes, SIZE, {*engine.tokenizer.special_tokens.values()})
    compiler, theirs = GrammarCompiler(trie, [END]), record_masks.tokenizers()["tokens"]
    for number, first in enumerate(range(0, count, 50)):
        grammars = draw_schemas(min(50, count - first), number, compiler, result.refused)
        for (schema, grammar), request in zip(grammars.items(), answer(grammars, engine, processor), strict=True):
            check(schema, grammar, request, theirs, result)
        yield result


if __name__ == "__main__":
    for result in run(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
        print(result, flush=True)
    for each in (*result.invalid, *result.cut, *result.different, *result.unknown):
        print(str(each)[:1500])

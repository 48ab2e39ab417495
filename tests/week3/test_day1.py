"""Week 3, day 1: attention and model of a ragged batch, sampling by rows, stop strings, the scheduler's step.

What is expected is what each request gets alone: by the formulas of week 1 in float64, by the samplers of week 1, by a
text that is looked at character by character, and by a model that can be foretold.
"""

import itertools
import math
from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import grouped64
from tests.week1.layer_of_operators import layer_of_operators
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, model64, random_model, random_tokens
from tests.week2.doubling import Doubling, halved
from tests.week3.ragged import CALLS, Calls, attention_of, calls_of, played, read_of, rows_of, stacked
from tests.week3.stories import (
    REASONS,
    VOCAB,
    Notebook,
    Places,
    Spelling,
    Teller,
    add_up,
    alone,
    count_up,
    greedy,
    shown_until,
)

from tiny_llm import tokenizer
from tiny_llm.config import ModelConfig
from tiny_llm.serving import memory, plans, queue, ragged, request, sampling, scheduler, stopping
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, to_float64
from tiny_llm_course.testkit.sizes import sizes, sweep
from tiny_llm_course.testkit.texts import same_ids, same_pieces, same_text

by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])

by_calls = pytest.mark.parametrize("calls", CALLS, ids=str)


# Task 1, attention of a ragged batch

attended = attention_of(
    request, lambda layers: memory.DenseMemory(layers), lambda kept, *arguments: kept.attend(*arguments)
)


def attended64(query, key, value, calls, layer, *, r=exact):
    """Each request by itself, all its tokens at once."""
    found = np.zeros(query.shape)
    for who, count in enumerate(read_of(calls, len(query))):
        if count:
            heads = [x[who, :count].swapaxes(0, 1) for x in (query, key, value)]
            found[who, :count] = grouped64(*heads, mask="causal", r=r).swapaxes(0, 1)
    return found


def attend_agrees(requests, length, heads, kv_heads, dims, calls, *, seed, dtype=mx.float32, layer=1, spread=1.0):
    draw = normals(seed if isinstance(seed, int) else seed.seed, dtype)
    query = draw(requests, length, heads, dims, spread=spread)
    key, value = draw(requests, length, kv_heads, dims), draw(requests, length, kv_heads, dims)
    agrees(attended, attended64, query, key, value, calls, layer, seed=seed)


@by_dtype
@by_calls
def test_task_1_attend_formula(calls, dtype):
    attend_agrees(3, 5, 6, 2, 4, calls, seed=1, dtype=dtype)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_task_1_attend_layers(layer):
    """Each layer has keys and values of its own."""
    attend_agrees(3, 5, 4, 2, 6, CALLS[3], seed=2, layer=layer)


@pytest.mark.parametrize("heads", [(1, 1), (3, 3), (4, 1)], ids=str)
def test_task_1_attend_heads(heads):
    for calls in CALLS[:4]:
        attend_agrees(3, 5, *heads, 5, calls, seed=3)


def test_task_1_attend_eight_that_write():
    """Eight requests of different lengths, and then a token of each, three times."""
    counts = (4, 1, 3, 2, 6, 1, 5, 2)
    step = tuple((who, 1) for who in range(8))
    calls = Calls([tuple(enumerate(counts)), step, step[::-1], step])
    attend_agrees(8, 9, 4, 2, 3, calls, seed=4)


def test_task_1_attend_sweep():
    for n in sweep(B=5, L=140, K=4, G=3, D=70):
        calls = calls_of(n.seed, n.B, n.L)
        attend_agrees(n.B, n.L, n.K * n.G, n.K, n.D, calls, seed=n, dtype=n.dtype, spread=min(n.spread, 30.0))


@property_test
@given(requests=st.integers(1, 4), length=st.integers(1, 6), number=st.integers(0, 999))
def test_task_1_attend_any_calls(requests, length, number):
    """However the tokens of all are mixed into calls, each gets what it gets alone."""
    attend_agrees(requests, length, 4, 2, 3, calls_of(number, requests, length), seed=number)


# Task 2, the model


def of(model):
    return ModelConfig.from_dict(model.config)


def in_calls(program, model, calls, scored):
    def run(tokens):
        kept, found = memory.DenseMemory(model.config["num_hidden_layers"]), []
        for chunks, spans in played(request, calls, tokens.tolist(), kept, scored):
            logits = program(chunks, kept)
            mx.eval(logits)
            wanted = sum(chunk.scored for chunk in chunks)
            if isinstance(logits, mx.array) and logits.shape != (wanted, model.config["vocab_size"]):
                lines = f"expected  {wanted} x {model.config['vocab_size']}", f"got       {logits.shape}"
                fail(Kind.SHAPE, "wrong shape", f"a call of {calls}, scored: {scored}", *lines)
            stays = [stays for chunk, (_, _, stays) in zip(chunks, spans, strict=True) for _ in range(chunk.scored)]
            found += [logits[row : row + 1] for row, each in enumerate(stays) if each]
        return mx.concatenate(found)

    return run


@built
def logits(tokens, model, calls, scored):
    return in_calls(ragged.RaggedModel(of(model), model.weights), model, calls, scored)


@built
def logits_by_other_parts(tokens, model, calls, scored):
    return in_calls(ragged.RaggedModel(of(model), halved(model).weights, Doubling()), model, calls, scored)


def logits64(tokens, model, calls, scored, *, r=exact):
    """Each request's whole text at once, and of its logits the rows that are asked for."""
    rows = rows_of(calls, *tokens.shape, scored)
    every = model64(tokens, model, r=r)
    return r(stacked([every[who, at] for who, at in rows if at >= 0], every))


@by_dtype
@by_head
@by_architecture
def test_task_2_ragged_formula(base, tied, dtype):
    model, tokens = random_model(base, 1, dtype, tie_word_embeddings=tied), random_tokens(1, 3, 5)
    for calls in CALLS:
        agrees(logits, logits64, tokens, model, calls, "last", seed=1, dtype=dtype)


@pytest.mark.parametrize("scored", ["last", "all", "end"])
@by_architecture
def test_task_2_ragged_scores_what_is_asked(base, scored):
    """After the last token of each chunk, after all of them, or only where a request has come to its end."""
    model, tokens = random_model(base, 2), random_tokens(2, 3, 5)
    for calls in CALLS:
        if any(at >= 0 for _, at in rows_of(calls, 3, 5, scored)):
            agrees(logits, logits64, tokens, model, calls, scored, seed=2, dtype=mx.float32)


def test_task_2_ragged_nobody_is_scored():
    """A chunk in the middle of a prompt: no row, of V logits."""
    model, case = random_model(QWEN3, 3), "float32, one chunk of 3 tokens, none scored, seed 3"
    with noted(case):
        kept = memory.DenseMemory(2)
        one = request.Request([5, 7, 11, 2], 1)
        kept.begin(one)
        actual = ragged.RaggedModel(of(model), model.weights)([request.Chunk(one, 0, [5, 7, 11], 0)], kept)
    compare(actual, np.zeros((0, 29)), mx.float32, 0.0, case, 3)


@pytest.mark.parametrize("change", [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}, {"num_hidden_layers": 1}], ids=str)
@by_architecture
def test_task_2_ragged_other_config(base, change):
    agrees(
        logits,
        logits64,
        random_tokens(4, 3, 5),
        random_model(base, 4, **change),
        CALLS[3],
        "last",
        seed=4,
        dtype=mx.float32,
    )


@by_head
@by_architecture
def test_task_2_ragged_by_other_parts(base, tied):
    """Its matrices are halved, and the parts that it is given double what a matrix gives."""
    model, tokens = random_model(base, 5, tie_word_embeddings=tied), random_tokens(5, 3, 5)
    agrees(logits_by_other_parts, logits64, tokens, model, CALLS[3], "all", seed=5, dtype=mx.float32)


def test_task_2_ragged_with_a_head_left_over():
    """The config ties the head to the table, and the weights hold an lm_head all the same."""
    model = random_model(QWEN3, 12, tie_word_embeddings=True)
    model = model.with_weights(**{"lm_head.weight": normals(120)(29, 12)})
    agrees(logits, logits64, random_tokens(12, 3, 5), model, CALLS[2], "last", seed=12, dtype=mx.float32)


def test_task_2_ragged_of_eleven_layers():
    model = random_model(QWEN3, 6, num_hidden_layers=11)
    agrees(logits, logits64, random_tokens(6, 3, 5), model, CALLS[3], "last", seed=6, dtype=mx.float32)


def test_task_2_ragged_sweep():
    for n in sizes(B=4, L=65, V=300, M=3, K=2):
        measures = {
            "tie_word_embeddings": n.turn(True, False, False),
            "vocab_size": n.V,
            "num_hidden_layers": n.M,
            "num_key_value_heads": n.K,
            "num_attention_heads": 2 * n.K,
        }
        model = random_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, **measures)
        tokens = mx.array(token_ids(n.seed, n.V, n.B * n.L)).reshape(n.B, n.L)
        calls = calls_of(n.seed, n.B, n.L)
        agrees(logits, logits64, tokens, model, calls, n.turn("all", "last", "end"), seed=n, dtype=mx.float32)


@property_test
@given(
    requests=st.integers(1, 4),
    length=st.integers(1, 6),
    base=st.sampled_from([QWEN3, QWEN25]),
    scored=st.sampled_from(["last", "all", "end"]),
    number=st.integers(0, 999),
)
def test_task_2_ragged_any_calls(requests, length, base, scored, number):
    """Requests of different lengths in one batch get what each gets alone."""
    calls, tokens = calls_of(number, requests, length), random_tokens(number, requests, length)
    agrees(logits, logits64, tokens, random_model(base, number), calls, scored, seed=number, dtype=mx.float32)


def test_task_2_ragged_trained():
    """The model that comes with the course, two texts of different lengths, by MLX's operators."""
    model = embedded_model()
    tokens = random_tokens(7, 2, 8, vocab_size=model.config["vocab_size"])
    c, w = of(model), model.weights
    x = w["model.embed_tokens.weight"][tokens]
    for number in range(c.num_hidden_layers):
        x = layer_of_operators(x, c, model.layer(number), "causal")
    every = mx.fast.rms_norm(x, w["model.norm.weight"], c.rms_norm_eps) @ w["model.embed_tokens.weight"].T
    calls = Calls([((0, 6),), ((0, 1), (1, 7)), ((1, 1), (0, 1))])
    case = f"float32, {model}, {calls}, seed 7"
    with noted(case):
        actual = logits(tokens, model, calls, "last")
    expected = [to_float64(every[who, at]) for who, at in rows_of(calls, 2, 8, "last")]
    compare(actual, np.stack(expected), mx.float32, 2e-3, case, tokens.size)


@pytest.mark.parametrize("start", [0, 3])
def test_task_2_ragged_refuses_too_many_tokens(start):
    """One of two requests goes beyond max_position_embeddings. The message says both numbers; memory is as it was."""
    model = random_model(QWEN3, 8, max_position_embeddings=6)
    case = f"float32, max_position_embeddings 6, a chunk of 2 tokens, and one from {start} to 7, seed 8"
    with noted(case):
        program, kept = ragged.RaggedModel(of(model), model.weights), memory.DenseMemory(2)
        one, other = request.Request([1, 2, 3], 1), request.Request([4, 5, 6, 7, 8, 9, 10], 1)
        kept.begin(one)
        kept.begin(other)
        if start:
            mx.eval(program([request.Chunk(other, 0, [4, 5, 6], 1)], kept))
            other.read = 3
    with raises_value_error(case, "7", "6"):
        mx.eval(program([request.Chunk(one, 0, [1, 2], 1), request.next_chunk(other, 7 - start)], kept))
    with noted(case):
        actual = program([request.Chunk(one, 0, [1, 2], 1)], kept)
    expected = to_float64(logits(mx.array([[1, 2]]), model, Calls([((0, 2),)]), "last"))
    compare(actual, expected, mx.float32, 1e-5, f"the same chunk of 2 tokens after the error; {case}", 9)


def test_task_2_ragged_exactly_as_many_tokens():
    model, tokens = random_model(QWEN3, 9, max_position_embeddings=5), random_tokens(9, 2, 5)
    agrees(logits, logits64, tokens, model, Calls([((0, 5), (1, 4)), ((1, 1),)]), "last", seed=9, dtype=mx.float32)


def test_task_2_ragged_two_memories():
    """The model itself remembers nothing: the same chunks again, with another memory."""
    model, case = random_model(QWEN3, 10), "float32, the same calls twice, each time with a new memory, seed 10"
    tokens = random_tokens(10, 3, 5)
    with noted(case):
        run = in_calls(ragged.RaggedModel(of(model), model.weights), model, CALLS[3], "all")
        first, second = run(tokens), run(tokens)
    compare(second, to_float64(first), mx.float32, 0.0, case, tokens.size)


# Task 3, sampling by rows

# What rows may ask for: some draw, some do not, one filter each, and all together.
PARAMS = [
    {},
    {"temp": 0.7, "seed": 1},
    {"temp": 3.0, "top_k": 2, "seed": 2},
    {"temp": 4.0, "top_p": 0.5, "seed": 3},
    {"temp": 2.0, "min_p": 0.4, "seed": 4},
    {"repetition_penalty": 9.0},
    {"temp": 1.5, "top_k": 9, "top_p": 0.8, "min_p": 0.1, "repetition_penalty": 1.4, "seed": 5},
]


def rows_of_params(params, seed, size, begun=4, written=3):
    """A chunk for each, scored unless the params are None, of requests that have some tokens."""
    draw, chunks = np.random.default_rng(seed), []
    for each in params:
        tokens = draw.integers(0, size, begun + written).tolist()
        settings = request.SamplingParams(**each or {})
        one = request.Request(tokens[:begun], 99, settings, output=tokens[begun:], read=begun + written - 1)
        chunks.append(request.Chunk(one, one.read, tokens[-1:], int(each is not None)))
    return chunks


def chosen(logits, chunks, case):
    """The token of each chunk, None where there is none."""
    with noted(case):
        found = sampling.sample_rows(logits, chunks)
    if type(found) is not list or any(type(each) is not list for each in found):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a list of lists", case)
    lengths = [len(each) for each in found]
    if lengths != (expected := [chunk.scored for chunk in chunks]):
        fail(Kind.SHAPE, "wrong numbers of tokens", case, f"expected  {expected}", f"got       {lengths}")
    if wrong := next((token for each in found for token in each if type(token) is not int), None):
        fail(Kind.TYPE, f"a token is {type_words(wrong)}, expected an int", case)
    return [each[0] if each else None for each in found]


def by_row(logits, chunks):
    """Each row by itself, in float64, with the noise that is given."""
    found, row = [], 0
    for chunk in chunks:
        if not chunk.scored:
            found.append(None)
            continue
        one, own, row = chunk.request, to_float64(logits[row].astype(mx.float32)), row + 1
        p, used = one.params, sorted({*one.prompt, *one.output})
        own[used] = np.where(own[used] > 0, own[used] / p.repetition_penalty, own[used] * p.repetition_penalty)
        if p.temp:
            own = own / p.temp
            if p.top_k:
                own[own < np.sort(own)[-min(p.top_k, len(own))]] = -np.inf
            order = np.argsort(-own, kind="stable")
            likely = np.exp(own - own.max()) / np.exp(own - own.max()).sum()
            if p.top_p < 1:
                before = np.concatenate([[0.0], np.cumsum(likely[order])[:-1]])
                own[order[1:][before[1:] >= p.top_p]] = -np.inf
            likely = np.exp(own - own.max())
            own[likely < p.min_p] = -np.inf
            own = own + to_float64(sampling.noise([(p.seed, len(one.output))], len(own)))[0]
        found.append(int(own.argmax()))
    return found


def chooses(params, seed, size=40, dtype=mx.float32, written=3):
    chunks = rows_of_params(params, seed, size, written=written)
    logits = normals(seed, dtype)(sum(chunk.scored for chunk in chunks), size, spread=2.0)
    case = f"{len(logits)} rows of {size} logits, params {list(params)}, seed {seed}"
    actual, expected = chosen(logits, chunks, case if len(case) < 160 else f"{case[:156]} ..."), by_row(logits, chunks)
    if actual != expected:
        fail(Kind.VALUES, "wrong tokens", case[:160], f"expected  {expected}", f"got       {actual}")


@by_dtype
@pytest.mark.parametrize("number", range(len(PARAMS)))
def test_task_3_rows_alone(number, dtype):
    for seed in range(4):
        chooses([PARAMS[number]], seed, dtype=dtype)


@by_dtype
def test_task_3_rows_together(dtype):
    """All settings in one batch, in any order, and with chunks between that are not scored."""
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(PARAMS)).tolist()
        mixed = [PARAMS[i] for i in order]
        chooses(mixed, seed, dtype=dtype)
        chooses([None, *mixed[:3], None, None, *mixed[3:], None], seed, dtype=dtype)


def test_task_3_rows_nobody_is_scored():
    case = "two chunks within their prompts, logits 0 x 5"
    if (actual := chosen(mx.zeros((0, 5)), rows_of_params([None, None], 1, 5), case)) != [None, None]:
        fail(Kind.VALUES, "wrong tokens", case, f"got       {actual}")


def test_task_3_rows_sweep():
    for n in sizes(R=9, V=1100):
        params = [PARAMS[(n.seed + 3 * i) % len(PARAMS)] if (n.seed + i) % 5 else None for i in range(n.R)]
        chooses(params, n.seed, n.V, written=n.seed % 4)


def test_task_3_rows_do_not_hear_of_one_another():
    """A request gets the same token alone and with others, in any row."""
    case = "a request with temp 2 and a seed, alone and as the third of five rows"
    chunks = rows_of_params([{"temp": 2.0, "seed": number} for number in range(5)], 3, 50)
    logits = normals(3)(5, 50)
    together = chosen(logits, chunks, case)
    alone = [chosen(logits[i : i + 1], chunks[i : i + 1], case)[0] for i in range(5)]
    backwards = chosen(logits[::-1], chunks[::-1], case)[::-1]
    same_ids(together, alone, case)
    same_ids(together, backwards, case)


@pytest.mark.parametrize("temp", [0.0, 1.0])
def test_task_3_rows_begun_anew(temp):
    """Whether a request was put back, and reads all its tokens again, makes no difference to what comes next."""
    case = f"temp {temp}, seed 5: 3 tokens were read, or all 7 are read anew"
    logits = normals(4)(1, 500)
    params = request.SamplingParams(temp=temp, seed=5)
    one = request.Request([1, 2, 3, 4], 9, params, output=[5, 6, 7], read=6)
    first = chosen(logits, [request.next_chunk(one, 1)], case)
    one.read = 0
    same_ids(chosen(logits, [request.next_chunk(one, 7)], case), first, case)


def test_task_3_rows_draw_anew_at_each_place():
    """Sixty draws from logits that are all equal: they differ, and so do those of other seeds."""
    case = "sixty places of one request, logits 1 x 1,000, all equal, temp 1"
    drawn = {}
    for seed in (0, 1):
        one = request.Request([3], 99, request.SamplingParams(temp=1.0, seed=seed), read=0)
        drawn[seed] = []
        for token in range(60):
            drawn[seed] += chosen(mx.zeros((1, 1000)), [request.next_chunk(one, one.unread)], case)
            one.output.append(token)
    if len(set(drawn[0])) < 40:
        fail(
            Kind.VALUES, "many places of a text draw the same token", case, f"{len(set(drawn[0]))} different ones of 60"
        )
    if drawn[0] == drawn[1]:
        fail(Kind.VALUES, "seed 0 and seed 1 draw the same tokens", case)


def test_task_3_rows_probabilities():
    """Four rows of logits, 500 seeds each: the tokens come as often as they should."""
    logits = mx.log(mx.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]))
    counts = [Counter(), Counter()]
    case = "1,000 seeds, two rows of 3 logits, temp 1"
    for first in range(0, 1000, 250):
        params = [{"temp": 1.0, "seed": seed} for seed in range(first, first + 250) for _ in (0, 1)]
        tokens = chosen(mx.concatenate([logits] * 250), rows_of_params(params, 1, 3), case)
        for row in (0, 1):
            counts[row].update(tokens[row::2])
    for row, shares in enumerate(([0.5, 0.3, 0.2], [0.1, 0.1, 0.8])):
        found = [counts[row][token] / 1000 for token in range(3)]
        if max(abs(a - b) for a, b in zip(found, shares, strict=True)) > 5 * math.sqrt(0.25 / 1000):
            fail(
                Kind.VALUES,
                "tokens do not come as often as they should",
                case,
                f"expected  {shares}",
                f"got       {found}",
            )


def test_task_3_rows_without_a_seed():
    """MLX's global state decides; and where nobody draws, it stays as it is."""
    case = "three rows without a seed, temp 5, logits 3 x 1,000"
    chunks, logits = rows_of_params([{"temp": 5.0}] * 3, 6, 1000), mx.zeros((3, 1000))
    found = []
    for _ in range(2):
        mx.random.seed(12)
        found.append(chosen(logits, chunks, case))
    same_ids(found[1], found[0], case)
    if len({*found[0], *chosen(logits, chunks, case)}) < 4:
        fail(Kind.VALUES, "rows without a seed draw the same tokens", case, f"got       {found[0]}")
    mx.random.seed(12)
    chosen(logits, rows_of_params([{}] * 3, 6, 1000), case)
    chosen(logits, rows_of_params([{"temp": 1.0, "seed": 3}] * 3, 6, 1000), case)
    state = mx.random.uniform(shape=(4,))
    mx.random.seed(12)
    compare(
        state, to_float64(mx.random.uniform(shape=(4,))), mx.float32, 0.0, "MLX's random state after rows with seeds", 4
    )


def test_task_3_rows_leaves_the_logits():
    chunks, logits = rows_of_params(PARAMS, 7, 30), normals(7)(len(PARAMS), 30)
    before, case = to_float64(logits), f"float32, logits {len(PARAMS)} x 30, seed 7"
    chosen(logits, chunks, case)
    compare(logits, before, mx.float32, 0.0, f"the caller's logits after the call; {case}", logits.size)


# Task 4, stop strings


def check_stops(parts, stops, tail="", case=""):
    case = case or f"pieces {parts}, stop strings {list(stops)}" + f", and at the end {tail!a}" * bool(tail)
    with noted(case):
        made = stopping.StopStrings(Spelling(parts, tail), stops)
        shown = [made.add(token) for token in range(len(parts))]
        shown.append(made.finish())
        text, found = made.text, made.found
    whole, so_far, string, expected = "", "", None, []
    for number, piece in enumerate([*parts, tail]):
        before = so_far
        if string is None:
            whole += piece
            so_far, string = shown_until(whole, stops, number == len(parts))
        expected.append(so_far[len(before) :])
    same_pieces(shown, expected, f"what each call shows; {case}")
    same_text(text, so_far, f"`text`; {case}")
    if found != string or type(found) is not type(string):
        fail(Kind.VALUES, "wrong `found`", case, f"expected  {string!a}", f"got       {found!a}")


@pytest.mark.parametrize(
    ("parts", "stops"),
    [
        (["That", " is", " a", " blue", " dog"], ["cat"]),
        (["That", " is", " a", " blue", " dog"], []),
        (["That", " is", " a", " blue", " dog"], [" a"]),
        (["That is", " a blue dog and a cat"], ["blue"]),
        (["That is", " a b", "lu", "e dog"], ["a blue"]),
        (["Hi", "\n", "Us", "ual", "\nUs", "er", ":", " no"], ["\nUser:"]),
        (list("aaaab"), ["aab"]),
        (list("ababac"), ["abac"]),
        (["abc"], ["abc"]),
        (["ab", "c", "abc"], ["c"]),
    ],
    ids=str,
)
def test_task_4_stop_by_hand(parts, stops):
    check_stops(parts, stops)


@pytest.mark.parametrize("parts", [["xabcd!"], ["xab", "cd!"], list("xabcd!"), ["xabc", "d!"]], ids=str)
@pytest.mark.parametrize(
    "stops", [["abcd", "bc"], ["bc", "abcd"], ["abc", "ab"], ["c", "abc", "bc"], ["d", "a"]], ids=str
)
def test_task_4_stop_several(stops, parts):
    """The first to be complete ends the text, however it is cut; of those that end together, the longest."""
    check_stops(parts, stops)


@pytest.mark.parametrize(
    ("parts", "stops", "tail"),
    [
        (["one t"], ["three"], ""),
        (["one th", "re"], ["three"], "e"),
        (["one"], ["three"], " th"),
        ([], ["three"], "a three"),
        ([], ["a"], ""),
        (["one three"], ["three"], "s"),
        (["on"], ["on the"], " "),
    ],
    ids=str,
)
def test_task_4_stop_at_the_end(parts, stops, tail):
    """What is held back comes out, with what the detokenizer still has; unless that makes a stop string complete."""
    check_stops(parts, stops, tail)


@pytest.mark.parametrize(
    ("parts", "text", "first"),
    [
        (["", "That", " is", " a b", "lue", " dog"], "That is a ", 4),
        (["I ", "see blue", " now"], "I see ", 1),
        (["blue", "s"], "", 0),
    ],
    ids=str,
)
def test_task_4_stop_ends(parts, text, first):
    """`ends` takes the token, and says whether the text is over: also if the token has letters to show before that."""
    case = f"pieces {parts}, stop string blue, ends"
    with noted(case):
        made = stopping.StopStrings(Spelling(parts), ["blue"])
        said = [made.ends(token) for token in range(len(parts))]
        shown, rest = made.text, made.finish()
    if said != (expected := [number >= first for number in range(len(parts))]):
        fail(Kind.VALUES, "`ends` is wrong", case, f"expected  {expected}", f"got       {said}")
    same_text(shown, text, case)
    same_text(rest, "", f"finish; {case}")


def test_task_4_stop_two_texts_at_once():
    case = "two texts in turn, stop string blue"
    with noted(case):
        one = stopping.StopStrings(Spelling(["a b", "lu"]), ["blue"])
        other = stopping.StopStrings(Spelling(["red", "e "]), ["blue"])
        shown = [made.add(token) for token in (0, 1) for made in (one, other)]
        shown += [one.finish(), other.finish()]
    same_pieces(shown, ["a ", "red", "", "e ", "blu", ""], case)


@pytest.mark.parametrize("stops", [[""], ["a", ""]], ids=str)
def test_task_4_stop_refuses_an_empty_string(stops):
    with raises_value_error(f"stop strings {stops}"):
        stopping.StopStrings(Spelling([]), stops)


@property_test
@given(
    text=st.text("ab\n", max_size=14),
    stops=st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3),
    cuts=st.lists(st.integers(0, 14), max_size=5),
    tail=st.text("ab", max_size=2),
)
def test_task_4_stop_any_text(text, stops, cuts, tail):
    """Few letters, so that strings begin everywhere; cut into tokens in any way."""
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    check_stops([text[a:b] for a, b in itertools.pairwise(places)], stops, tail)


def test_task_4_stop_sweep():
    """Every text of up to six letters of two, letter by letter and in two pieces."""
    for stops in (["ab"], ["aab", "ba"], ["aba", "b"], ["abab", "bb", "a"]):
        for length in range(7):
            for letters in itertools.product("ab", repeat=length):
                check_stops(list(letters), stops)
        for letters in itertools.product("ab", repeat=5):
            text = "".join(letters)
            for cut in range(6):
                check_stops([text[:cut], text[cut:]], stops)
    long = "ab" * 600 + "aab" + "b"
    check_stops([long[i : i + 7] for i in range(0, 1200, 7)], ["aab" * 2, "b" * 40])


def test_task_4_stop_with_your_detokenizer():
    """A dog emoji comes in two tokens, and is a stop string."""
    case = "tokens of `a`, and of a dog emoji, one byte each; stop string: the emoji"
    with noted(case):
        bpe = tokenizer.ByteLevelBPE({letter: byte for byte, letter in tokenizer.byte_alphabet().items()}, [])
        made = stopping.StopStrings(tokenizer.StreamingDetokenizer(bpe), ["\U0001f415"])
        shown = [made.add(byte) for byte in "a\U0001f415b".encode()]
        shown.append(made.finish())
    same_pieces(shown, ["a", "", "", "", "", "", ""], case)
    with noted(case):
        made = stopping.StopStrings(tokenizer.StreamingDetokenizer(bpe), ["b\ufffd"])
        shown = [made.add(byte) for byte in b"ab\xf0"]
        shown.append(made.finish())
    same_pieces(shown, ["a", "", "", ""], "tokens of `ab`, and one byte of an emoji; stop string b and U+FFFD")


# Task 5, the scheduler's step


def serving(requests, case, slots=3, follow=add_up, room=None, late=None, fails=(), **options):  # noqa: RET503
    """Play until all are done: the scheduler, and its steps."""
    kept = Notebook(room, case)
    with noted(case):
        made = scheduler.Scheduler(Teller(follow, case, fails), kept, slots=slots, **{"choose": greedy, **options})
        steps, late = [], late or [0] * len(requests)
        for number in range(400):
            for one, at in zip(requests, late, strict=True):
                if at == number:
                    made.submit(one)
            steps.append(made.step())
            if number >= max(late, default=0) and all(one.finished for one in requests):
                return made, steps
    fail(
        Kind.VALUES,
        "after 400 steps not all requests have ended",
        case,
        f"finished  {[one.finished for one in requests]}",
    )


def who(requests, some):
    """Names, in the order of the requests."""
    names = {id(one): chr(65 + number) for number, one in enumerate(requests)}
    return "".join(names[id(one)] for one in some)


def plays(requests, expected, case, **options):
    """Check who is read in each step, that all get what they get alone, and that nothing is left behind."""
    made, steps = serving(requests, case, **options)
    rows = [who(requests, [chunk.request for chunk in step.chunks]) for step in steps]
    same_pieces(rows, expected, f"who is read in each step; {case}")
    ended_alone(requests, case, options.get("follow", add_up))
    left_empty(made, case)
    return made, steps


def ended_alone(requests, case, follow=add_up):
    for number, one in enumerate(requests):
        expected = alone(follow, one.prompt, one.max_tokens, tuple(one.eos_ids))
        same_ids(one.output, expected, f"the output of {chr(65 + number)}; {case}")
        why = "length" if len(expected) == one.max_tokens else "stop"
        if one.finished != why:
            fail(Kind.VALUES, "wrong `finished`", case, f"expected  {why}", f"got       {one.finished}")


def left_empty(made, case):
    if made.running or len(made.waiting) or made.memory.texts:
        lines = f"running {len(made.running)}, waiting {len(made.waiting)}, in memory {len(made.memory.texts)}"
        fail(Kind.VALUES, "all requests have ended, and something is left", case, lines)


def asked(*lengths, prompt=2, **options):
    return [request.Request([3 + i] * prompt, length, **options) for i, length in enumerate(lengths)]


def test_task_5_step_five_in_three_slots():
    """Who has ended leaves at once, and the next one comes in with the next step."""
    plays(asked(4, 1, 2, 3, 1), ["ABC", "ACD", "ADE", "AD"], "5 requests of 4, 1, 2, 3, 1 tokens, 3 slots")


def test_task_5_step_static():
    """Nobody comes in before all have ended."""
    expected = ["ABC", "AC", "A", "A", "DE", "D", "D"]
    plays(asked(4, 1, 2, 3, 1), expected, "5 requests of 4, 1, 2, 3, 1 tokens, 3 slots, static", static=True)


def test_task_5_step_one_slot():
    plays(asked(2, 1, 2), ["A", "A", "B", "C", "C"], "3 requests of 2, 1, 2 tokens, 1 slot", slots=1)


def test_task_5_step_more_slots_than_requests():
    plays(asked(2, 3), ["AB", "AB", "B"], "2 requests of 2, 3 tokens, 8 slots", slots=8)


def test_task_5_step_memory_is_full():
    """Memory has room for two."""
    plays(asked(3, 2, 2, 1), ["AB", "AB", "AC", "CD"], "4 requests of 3, 2, 2, 1 tokens, memory for 2", room=2)


def test_task_5_step_waits_where_it_was():
    """For whom memory has no room, that stays the next one, however many steps it takes."""
    expected = ["AB", "AB", "AB", "BC", "CD", "DE"]
    plays(asked(3, 4, 2, 2, 1), expected, "5 requests of 3, 4, 2, 2, 1 tokens, memory for 2", room=2)


def test_task_5_step_late_ones():
    """Who comes while others run is read with them."""
    case = "3 requests of 4, 2, 2 tokens, which come before steps 0, 1 and 3"
    plays(asked(4, 2, 2), ["A", "AB", "AB", "AC", "C"], case, late=[0, 1, 3])


def test_task_5_step_nobody():
    case = "a step without requests"
    with noted(case):
        step = scheduler.Scheduler(Teller(add_up, case), Notebook(), choose=greedy).step()
    if done := [name for name, some in vars(step).items() if some]:
        fail(Kind.VALUES, "a step of nobody has done something", case, f"got       {', '.join(done)}")


def test_task_5_step_says_what_it_did():
    """Who was let in, which tokens were read, which are new, and who has ended."""
    case, requests = "3 requests of 2, 1, 1 tokens, prompts of 2, 2, 3, 2 slots", asked(2, 1)
    requests.append(request.Request([9, 9, 9], 1))
    _, steps = serving(requests, case, slots=2)
    same_pieces([who(requests, step.admitted) for step in steps], ["AB", "C"], f"who is let in; {case}")
    same_pieces([who(requests, step.finished) for step in steps], ["B", "AC"], f"who has ended; {case}")
    read = [[f"{who(requests, [each.request])} {each.start}..{each.end - 1}" for each in step.chunks] for step in steps]
    expected = ["A 0..1, B 0..1", "A 2..2, C 0..2"]
    same_pieces(list(map(", ".join, read)), expected, f"which positions are read; {case}")
    new = [token for step in steps for tokens in step.new for token in tokens]
    (first, second), (other, *_) = (alone(add_up, requests[i].prompt, 2) for i in (0, 1))
    same_ids(new, [first, other, second, *alone(add_up, [9, 9, 9], 1)], f"the new tokens of both steps; {case}")


@pytest.mark.parametrize("eos", [(9,), (6, 9), (4,), (5,)], ids=str)
def test_task_5_step_end_of_text(eos):
    """A token of eos_ids ends a text, and is no part of it; it may be the first one."""
    case = f"prompts [3], [4], [8], the tokens count up, eos_ids {eos}, max_tokens 7"
    requests = [request.Request([begun], 7, eos_ids=eos) for begun in (3, 4, 8)]
    made, steps = serving(requests, case, follow=count_up)
    ended_alone(requests, case, count_up)
    left_empty(made, case)
    for number, one in enumerate(requests):
        new = [
            t
            for step in steps
            for chunk, tokens in zip(step.chunks, step.new, strict=True)
            if chunk.request is one
            for t in tokens
        ]
        same_ids(new, one.output, f"the new tokens of {chr(65 + number)} in all steps; {case}")


def test_task_5_step_stop():
    """`stop` is told each token, but not one of eos_ids; that at which it says True is the last of the output."""
    case, told = "prompts [3], [6], the tokens count up, stop at 6, eos_ids (8,)", [[], []]

    def stop_of(number):
        def stop(token):
            told[number].append(token)
            return token == 6

        return stop

    requests = [request.Request([begun], 9, stop=stop_of(i), eos_ids=(8,)) for i, begun in enumerate((3, 6))]
    made, _ = serving(requests, case, follow=count_up)
    left_empty(made, case)
    for number, expected in enumerate(([4, 5, 6], [7])):
        same_ids(requests[number].output, expected, f"the output of {chr(65 + number)}; {case}")
        same_ids(told[number], expected, f"what the stop of {chr(65 + number)} is told; {case}")
        if requests[number].finished != "stop":
            fail(Kind.VALUES, "wrong `finished`", case, "expected  stop", f"got       {requests[number].finished}")


def test_task_5_step_stop_is_told_the_last_token():
    """Also that which is the last of max_tokens: whoever turns tokens into text hears of them through `stop`."""
    case, told = "prompt [3], 2 tokens, which count up, and a stop that never stops", []
    requests = [request.Request([3], 2, stop=told.append)]
    serving(requests, case, follow=count_up)
    same_ids(told, [4, 5], f"what stop is told; {case}")


def test_task_5_step_begun_anew():
    """One that was put back reads its prompt and its output again, and goes on as if nothing had been."""
    case, requests = "2 requests of 5, 3 tokens; after 2 steps the second is put back", asked(5, 3)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), choose=greedy)
        for one in requests:
            made.submit(one)
        made.step()
        made.step()
        made.running.remove(requests[1])
        made.memory.release(requests[1])
        requests[1].read = 0
        made.waiting.put_back(requests[1])
        while not all(one.finished for one in requests) and made.model.calls < 20:
            made.step()
    ended_alone(requests, case)
    left_empty(made, case)


def halves(running, budget):
    """Two tokens of each at most, the youngest first."""
    return [request.next_chunk(one, min(2, one.unread)) for one in reversed(running)]


def test_task_5_step_by_another_plan():
    """The plan says who is read, and how much; it is told those that run, the oldest first, and the budget."""
    requests = [request.Request([3, 4, 5, 6, 7], 2), request.Request([3], 3), request.Request([2, 2, 2], 1)]
    plays(requests, ["CBA", "CBA", "BA", "A"], "prompts of 5, 1, 3 tokens, a plan of 2 of each at most", plan=halves)
    plays(
        asked(2, 2, 2),
        ["AB", "AB", "C", "C"],
        "3 requests of 2 tokens, a plan that takes `budget` requests, budget 2",
        plan=lambda running, budget: plans.whole_prompts(running[:budget], budget),
        budget=2,
    )


class Charged(queue.FirstComeFirstServed):
    """Writes down who is charged, and how much: number, tokens, number, tokens."""

    def __init__(self):
        super().__init__()
        self.charged = []

    def charge(self, one, tokens):
        self.charged += [one.number, tokens]


class LastFirst(Charged):
    """The last one that came is the next."""

    def next(self):
        return self._waiting[-1]


def test_task_5_step_by_another_queue():
    """The queue says who is next, and is told what was read. Those that run are in the order of their numbers."""
    case, waiting = "4 requests of 1, 2, 3, 2 tokens, 2 slots, the last one first", LastFirst()
    plays(asked(1, 2, 3, 2), ["CD", "CD", "BC", "AB"], case, slots=2, waiting=waiting)
    expected = [2, 2, 3, 2, 2, 1, 3, 1, 1, 2, 2, 1, 0, 2, 1, 1]
    same_ids(waiting.charged, expected, f"who is charged, and how much; {case}")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_task_5_step_the_model_fails(number):
    """The error reaches the caller. Memory is as it was, nobody is charged for the step, and the next one goes on."""
    case, requests = f"2 requests of 4, 3 tokens, call {number} of the model fails half way", asked(4, 3)
    with noted(case):
        waiting = Charged()
        made = scheduler.Scheduler(Teller(add_up, case, [number]), Notebook(None, case), choose=greedy, waiting=waiting)
        for one in requests:
            made.submit(one)
        for _ in range(number - 1):
            made.step()
        before = list(waiting.charged)
    with raises_error(RuntimeError, case, "the model has failed"):
        made.step()
    held = [len(made.memory.texts.get(one, [])) for one in requests]
    same_ids(held, [one.read for one in requests], f"how many tokens memory has, against `read`; {case}")
    same_ids(waiting.charged, before, f"who is charged, and how much, when the step has failed; {case}")
    with noted(case):
        while not all(one.finished for one in requests) and made.model.calls < 20:
            made.step()
    ended_alone(requests, case)
    left_empty(made, case)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_task_5_step_guesses(taken):
    """A plan that reads two guesses behind the last token, of which the first are right: those tokens are taken.

    The queue is charged for all that was read, also for what was read in vain.
    """

    def guess(running, budget):
        chunks = []
        for each in plans.whole_prompts(running, budget):
            guessed = alone(add_up, each.request.tokens(0, each.end), taken - 1)
            wrong = [5] * (3 - taken)
            chunks.append(request.Chunk(each.request, each.start, [*each.tokens, *guessed, *wrong], 3))
        return chunks

    def choose(logits, chunks):
        return [tokens[:taken] for tokens in greedy(logits, chunks)]

    case = f"2 requests of 4, 7 tokens, 3 scored in each step, {taken} taken"
    requests, waiting = asked(4, 7), Charged()
    expected = ["AB"] * -(-4 // taken) + ["B"] * (-(-7 // taken) - -(-4 // taken))
    _, steps = plays(requests, expected, case, plan=guess, choose=choose, waiting=waiting)
    due = [number for step in steps for each in step.chunks for number in (each.request.number, len(each.tokens))]
    same_ids(waiting.charged, due, f"who is charged, and how much; {case}")


def test_task_5_step_cancelled_meanwhile():
    """`stop` is somebody else's code: that of A cancels B within a step, that of C cancels C."""
    case, requests = "4 requests of 4 tokens, 4 slots; at A's 2nd token B is cancelled, at C's 2nd C", asked(4, 4, 4, 4)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), slots=4, choose=greedy)

        def of_a(token):
            if len(requests[0].output) == 2:
                made.cancel(requests[1])
            return False

        def of_c(token):
            if len(requests[2].output) == 2:
                made.cancel(requests[2])
            return False

        requests[0].stop, requests[2].stop = of_a, of_c
        for one in requests:
            made.submit(one)
        steps = [made.step() for _ in range(6)]
    left_empty(made, case)
    counts = [len(step.new) for step in steps]
    same_ids(counts, [len(step.chunks) for step in steps], f"how many lists `new` has, one for each chunk; {case}")
    same_ids([len(one.output) for one in requests], [4, 1, 2, 4], f"how many tokens each has; {case}")
    told = [one.finished for one in requests]
    same_pieces(told, ["length", "cancelled", "cancelled", "length"], f"`finished`; {case}")
    ended = [who(requests, step.finished) for step in steps]
    same_pieces(ended, ["", "", "", "AD", "", ""], f"`finished` of each step; {case}")


def test_task_5_step_cancelled_between():
    """One that runs and one that waits are cancelled: slot and memory are free in the next step."""
    case, requests = "4 requests of 4 tokens, 2 slots; after a step A and C are cancelled", asked(4, 4, 4, 4)
    with noted(case):
        made = scheduler.Scheduler(Teller(add_up, case), Notebook(None, case), slots=2, choose=greedy)
        for one in requests:
            made.submit(one)
        made.step()
        made.cancel(requests[0])
        made.cancel(requests[2])
        step = made.step()
    read = who(requests, [chunk.request for chunk in step.chunks])
    same_text(read, "BD", f"who is read in the second step; {case}")


def test_task_5_step_reserves():
    """Room is reserved for each chunk's tokens."""
    case = "a prompt of 3 tokens with 2 to follow, one of 1 with 3"
    made, _ = serving([request.Request([3, 4, 5], 2), request.Request([6], 3)], case)
    same_ids(made.memory.asked, [3, 1, 1, 1, 1], f"how many tokens room was asked for; {case}")


def puts_back(self, chunk, step):
    """What `make_room` promises, written here: the step is graded before it is."""
    while True:
        youngest = self.running.pop()
        self.memory.release(youngest)
        youngest.read = 0
        self.waiting.put_back(youngest)
        step.preempted.append(youngest)
        if youngest is chunk.request:
            return False
        if self.memory.reserve(chunk.request, len(chunk.tokens)):
            return True


@pytest.mark.parametrize(("order", "places"), [("oldest", 6), ("oldest", 7), ("youngest", 7)])
def test_task_5_step_no_room_for_a_chunk(order, places):
    """A asks for room before B or after it, and B is put back: a step reads nothing of who was put back in it."""
    case, requests = f"2 prompts of 2 tokens, 4 to follow, {places} places, the {order} first", asked(4, 4)

    def plan(running, budget):
        return plans.whole_prompts(running if order == "oldest" else running[::-1], budget)

    class Made(scheduler.Scheduler):
        make_room = puts_back

    with noted(case):
        made, rows = Made(Teller(add_up, case), Places(places, case), choose=greedy, plan=plan), []
        for one in requests:
            made.submit(one)
        while not all(one.finished for one in requests) and len(rows) < 40:
            rows.append(who(requests, [chunk.request for chunk in made.step().chunks]))
    both = "AB" if order == "oldest" else "BA"
    same_pieces(rows, [both, both, "A", "A", "B", "B"], f"who is read in each step; {case}")
    ended_alone(requests, case)
    left_empty(made, case)


def simulated(lengths, arrivals, slots, static):
    """Who is read in each step, by counting alone."""
    left, waiting, running, rows = dict(enumerate(lengths)), [], [], []
    for step in range(400):
        waiting += [i for i, at in enumerate(arrivals) if at == step]
        if not (static and running):
            while waiting and len(running) < slots:
                running.append(waiting.pop(0))
        running.sort()
        rows.append("".join(chr(65 + i) for i in running))
        for i in running:
            left[i] -= 1
        running = [i for i in running if left[i]]
        if step >= max(arrivals) and not any(left.values()):
            return rows
    return rows


def test_task_5_step_sweep():
    for n in sizes(R=20, T=20, S=9):
        draw = np.random.default_rng(n.seed)
        lengths = draw.integers(1, n.T + 1, n.R).tolist()
        requests = [request.Request(draw.integers(2, VOCAB, int(draw.integers(1, 6))).tolist(), m) for m in lengths]
        case = f"{n.R} requests of up to {n.T} tokens, {n.S} slots, seed {n.seed}"
        expected = simulated(lengths, [0] * n.R, n.S, bool(n.turn(False, True)))
        plays(requests, expected, case, slots=n.S, static=bool(n.turn(False, True)))


@property_test
@given(
    many=st.lists(
        st.tuples(st.lists(st.integers(2, VOCAB - 1), min_size=1, max_size=4), st.integers(1, 5), st.integers(0, 8)),
        min_size=1,
        max_size=7,
    ),
    slots=st.integers(1, 4),
    static=st.booleans(),
)
def test_task_5_step_any_arrivals(many, slots, static):
    """Whoever comes when, with whatever prompt and length: each gets what it gets alone, and nothing is left."""
    requests = [request.Request(list(prompt), length) for prompt, length, _ in many]
    # Numbers go by arrival.
    late = sorted(at for _, _, at in many)
    expected = simulated([length for _, length, _ in many], late, slots, static)
    case = (
        f"lengths {[length for _, length, _ in many]}, which come before steps {late}, {slots} slots, static {static}"
    )
    plays(requests, expected, case, slots=slots, static=static, late=late)


@property_test
@given(seed=st.integers(0, 99), slots=st.integers(1, 4), temp=st.sampled_from([0.0, 1.0]))
def test_task_5_step_with_your_model(seed, slots, temp):
    """Your model, memory and sampling: any batch gives each request the tokens that it gets alone."""
    model, draw = random_model(QWEN3, 11), np.random.default_rng(seed)
    config = ModelConfig.from_dict(model.config)
    case = f"float32, {model}, {slots} slots, temp {temp}, seed {seed}"
    prompts = [draw.integers(0, 29, int(draw.integers(1, 7))).tolist() for _ in range(4)]
    found = []
    for many in (slots, 1):
        requests = [
            request.Request(list(prompt), 2 + i, request.SamplingParams(temp=temp, seed=i))
            for i, prompt in enumerate(prompts)
        ]
        with noted(case):
            made = scheduler.Scheduler(ragged.RaggedModel(config, model.weights), memory.DenseMemory(2), slots=many)
            for one in requests:
                made.submit(one)
            for _ in range(20):
                made.step()
        found.append([token for one in requests for token in [*one.output, -REASONS.index(one.finished)]])
    same_ids(found[0], found[1], f"all outputs, against one at a time; {case}")

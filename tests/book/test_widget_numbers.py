"""The numbers that the book's widgets show are those of the course's own code."""

import itertools
import json
import math

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week1 import day7, heads
from tests.book.widget import Widget

from tiny_llm_course.dev.book.drawing import TIMES
from tiny_llm_course.dev.book.html import MINUS, number
from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.engine.engine import load_engine
from tiny_llm_course.paths import BOOK, TESTS
from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()

# Day 1: attention


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_the_solution_s(page, causal):
    from tiny_llm_solution.attention import causal_mask, scaled_dot_product_attention_simple

    widget = Widget(page, "attention-stepper")
    data, state = widget.data(), widget.change(causal=causal)
    query, key, value, products = (
        mx.array(data[name], dtype=mx.float32) for name in ("query", "key", "value", "products")
    )
    # Two decimals of the products are shown, and what follows is computed from these.
    np.testing.assert_allclose(np.array(query @ key.T), np.array(products), atol=0.00501)
    mask = causal_mask(5, 5, mx.float32) if causal else None
    expected = scaled_dot_product_attention_simple(products, mx.eye(5), value, 1 / 8, mask)
    np.testing.assert_allclose(state["output"], np.array(expected), atol=1e-6)
    # Values that are the identity: what comes out are the weights.
    weights = scaled_dot_product_attention_simple(products, mx.eye(5), mx.eye(5), 1 / 8, mask)
    np.testing.assert_allclose(state["softmax"], np.array(weights), atol=1e-6)
    hidden = [[x == "-Infinity" for x in row] for row in state["mask"]]
    assert hidden == [[causal and j > i for j in range(5)] for i in range(5)]


def test_attention_has_the_numbers_of_its_chapter(page):
    """Those of its two pictures, and of the graded test, to the last digit that is shown."""
    state, graded = Widget(page, "attention-stepper").state(), (TESTS / "week1" / "test_day1.py").read_text()
    for name, digits, anchor in (("scores", 2, "products"), ("softmax", 4, "weights")):
        drawn = present("1.1", anchor)
        for i, row in enumerate(state[name]):
            for j, x in enumerate(row):
                if name == "scores" or j <= i:
                    assert f">{number(x, digits)}</text>" in drawn
            numbers = ", ".join(f"{x:.{digits}f}" if x not in (0, 1) else f"{x:.1f}" for x in row)
            assert f"[{numbers}]," in graded


def test_the_atlas_is_the_solution_s_attention(page):
    """Each head's scores and weights, from the solution's own parts in float32."""
    from tiny_llm_solution.attention import causal_mask
    from tiny_llm_solution.basics import linear, softmax
    from tiny_llm_solution.layer_norm import RMSNorm
    from tiny_llm_solution.positional_encoding import RoPE

    shown, model = Widget(page, "head-atlas").data()["heads"], heads.model()
    config, (layer, _) = model.config, heads.SHOWN
    weights, eps = model.layer(layer), config["rms_norm_eps"]
    x = mx.array(heads.streams_of(heads.SENTENCE)[layer], dtype=mx.float32)[None]
    read = RMSNorm(config["hidden_size"], weights["input_layernorm.weight"], eps)(x)
    rope = RoPE(config["head_dim"], 16, config["rope_theta"])

    def turned(name, count):
        split = mx.unflatten(linear(read, weights[f"self_attn.{name}_proj.weight"]), -1, (count, -1))
        normed = RMSNorm(config["head_dim"], weights[f"self_attn.{name}_norm.weight"], eps)(split)
        return rope(normed)[0].swapaxes(0, 1)

    queries, keys = config["num_attention_heads"], config["num_key_value_heads"]
    query, key = turned("q", queries), mx.repeat(turned("k", keys), queries // keys, axis=0)
    scores = query @ key.swapaxes(-1, -2) / 8
    shares = softmax(scores + causal_mask(5, 5, mx.float32), -1)
    for i, found in enumerate(shown[layer]):
        np.testing.assert_allclose(found["scores"], np.array(scores[i]), atol=0.006)
        np.testing.assert_allclose(found["weights"], np.array(shares[i]), atol=0.0051)
    assert len(shown) == config["num_hidden_layers"]
    assert {len(layer) for layer in shown} == {queries}


def test_the_atlas_shows_the_head_that_is_chosen(page):
    widget = Widget(page, "head-atlas")
    for what, least in (("weights", 0), ("masked", -math.inf), ("scores", -100)):
        state = widget.change(layer=3, head=1, what=what)
        cells = widget.element.locator("#large td").all_inner_texts()[1:]
        wanted = [float(x) for row in state["numbers"] for x in row]
        shown = [float(text.strip().replace(MINUS, "-").replace("∞", "inf")) for text in cells]
        np.testing.assert_allclose(shown, wanted, atol=0.0051)
        assert min(shown) >= least
    assert "one before 56 %" in widget.said()


def test_attention_works_out_the_highlighted_cell(page):
    """Every cell of every step: what stands behind the last equals sign is the cell's number."""
    widget = Widget(page, "attention-stepper")
    views = [
        {"causal": causal, "step": step, "row": row, "column": column}
        for causal, step, row, column in itertools.product([True, False], range(5), range(5), range(5))
    ]
    for state, text in zip(*widget.look(views, ".sum"), strict=True):
        shown = state[["scores", "scaled", "mask", "softmax", "output"][state["step"]]][state["row"]][state["column"]]
        result = text.rpartition("= ")[2].replace(MINUS, "-").replace("∞", "inf")
        assert float(result) == pytest.approx(float(shown), abs=0.00051)


def test_attention_s_side_panel_shows_what_the_step_reads(page):
    """For the row `a`, of five: what the step before has made of it, and what is added, taken or weighed."""
    widget = Widget(page, "attention-stepper")
    for step in range(1, 5):
        state = widget.change(step=step, row=2)
        rows = widget.element.locator("#vectors tr").evaluate_all(
            "rows => rows.map(row => [row.querySelector('th').textContent, ...[...row.querySelectorAll('td')]"
            ".filter(cell => !cell.querySelector('svg')).map(cell => cell.textContent)])"
        )
        scores, scaled, masked, weights = (
            [float(x) for x in state[name][2]] for name in ("scores", "scaled", "mask", "softmax")
        )
        added = [0.0, 0.0, 0.0, -math.inf, -math.inf]
        read = {
            1: [["", *map(number, scores)]],
            2: [["scores", *map(number, scaled)], ["mask", *map(number, added)]],
            3: [["scores", *map(number, masked)], ["exp", *map(number, map(math.exp, masked))]],
            4: [[f"{number(x)} {TIMES} {token}"] for x, token in zip(weights, widget.data()["tokens"], strict=True)],
        }
        assert rows == read[step]


# Day 2: RoPE


@pytest.mark.parametrize("layout", ["neighbors", "halves"])
def test_rope_is_the_solution_s(page, layout):
    from tiny_llm_solution.positional_encoding import RoPE

    widget = Widget(page, "rope-rotation")
    data = widget.data()
    rope = RoPE(2 * len(data["query"]), data["positions"], data["base"], traditional=layout == "neighbors")
    positions = range(data["positions"])
    views = [{"layout": layout, "query": query, "key": key} for query in positions for key in positions]
    for state in widget.look(views, ".say")[0]:
        for name in ("query", "key"):
            x = mx.array(state["unturned"][name], dtype=mx.float32).reshape(1, 1, 1, -1)
            expected = rope(x, slice(state[name], state[name] + 1)).flatten()
            np.testing.assert_allclose(state["turned"][name], np.array(expected), atol=1e-6)
        assert state["score"] == pytest.approx(np.dot(state["turned"]["query"], state["turned"]["key"]))


def test_rope_s_score_depends_on_the_distance_alone(page):
    widget = Widget(page, "rope-rotation")
    views = [{"query": query, "key": key} for query in range(16) for key in range(16)]
    scores: dict[int, list[float]] = {}
    for state in widget.look(views, ".say")[0]:
        scores.setdefault(state["distance"], []).append(state["score"])
    assert all(max(same) - min(same) < 1e-12 for same in scores.values())
    drawn = present("1.2", "scores")
    assert all(f">{number(scores[distance][0], 4)}</text>" in drawn for distance in range(5))


# Day 3: grouped-query attention


def test_gqa_counts_the_bytes_of_real_arrays(page):
    widget = Widget(page, "gqa-sharing")
    models = widget.data()["models"]
    views = [
        {"model": number, "kv_heads": kv_heads, "tokens": tokens}
        for number, model in enumerate(models)
        for kv_heads in range(1, model["heads"] + 1)
        for tokens in range(8, model["context"].bit_length())
        if model["heads"] % kv_heads == 0
    ]
    states, texts = widget.look(views, ".sum")
    assert len(states) > 80
    for view, state, text in zip(views, states, texts, strict=True):
        model = models[state["model"]]
        shape = (1, view["kv_heads"], 2 ** view["tokens"], model["head_dim"])
        arrays = [mx.zeros(shape, dtype=mx.bfloat16) for _ in range(2 * model["layers"])]  # never evaluated
        assert state["bytes"] == sum(array.nbytes for array in arrays)
        assert state["perToken"] * 2 ** view["tokens"] == state["bytes"]
        assert f"= {state['perToken']:,} bytes a token" in text
        assert f"= {state['bytes']:,} bytes =" in text


def test_gqa_has_the_numbers_of_its_chapter(page):
    states, texts = Widget(page, "gqa-sharing").look(
        [{"model": 2, "kv_heads": kv_heads, "tokens": 12} for kv_heads in (32, 8, 1)], ".sum"
    )
    assert [state["bytes"] // 2**20 for state in states] == [2304, 576, 72]
    assert [text.rpartition("= ")[2] for text in texts] == ["2.25 GiB", "576 MiB", "72 MiB"]


def test_gqa_shares_as_the_solution_does(page):
    """Another key-value head changes the query heads that read it, and no others."""
    from tiny_llm_solution.attention import scaled_dot_product_attention_grouped

    widget = Widget(page, "gqa-sharing")
    models = widget.data()["models"]
    views = [
        {"model": number, "kv_heads": kv_heads}
        for number, model in enumerate(models)
        for kv_heads in range(1, model["heads"] + 1)
        if model["heads"] % kv_heads == 0
    ]
    mx.random.seed(0)
    for state in widget.look(views, ".say")[0]:
        query = mx.random.normal((state["heads"], 3, 4))
        key, value = mx.random.normal((state["kvHeads"], 5, 4)), mx.random.normal((state["kvHeads"], 5, 4))
        before = scaled_dot_product_attention_grouped(query, key, value)
        for head in range(state["kvHeads"]):
            left = (mx.arange(state["kvHeads"]) != head)[:, None, None]
            after = scaled_dot_product_attention_grouped(query, key * left, value * left)
            changed = mx.any(after != before, axis=(1, 2)).tolist()
            assert changed == [read == head for read in state["reads"]]


# Day 4: a norm and a gate


def test_norm_and_gate_are_the_solution_s(page):
    """For every token, size and eps, and every gate; and the sessions of the chapter have the same vectors."""
    from tiny_llm_solution.basics import silu
    from tiny_llm_solution.layer_norm import RMSNorm

    widget = Widget(page, "norm-gate")
    data = widget.data()
    views = [
        {"token": token, "power": power, "eps": eps, "gate": gate}
        for token, (power, eps) in itertools.product(range(5), [(-4, -5), (-1, -8), (0, -5), (2, -1)])
        for gate in (-10, -1.5, 0, 6)
    ]
    for view, state in zip(views, widget.look(views, ".say")[0], strict=True):
        vector = mx.array(data["vectors"][view["token"]]) * 10.0 ** view["power"]
        expected = RMSNorm(4, mx.ones(4), 10.0 ** view["eps"])(vector)
        np.testing.assert_allclose(state["normed"], np.array(expected), rtol=1e-4)
        passed = silu(mx.array(float(view["gate"]))).item() * data["ups"][view["token"]]
        assert state["passed"] == pytest.approx(passed, rel=1e-4)
    chapter = (BOOK / "src" / "week1" / "day4.md").read_text(encoding="utf-8")
    for token, vector in zip(data["tokens"], data["vectors"], strict=True):
        assert f'"{token}": ({", ".join(f"{x:g}" for x in vector)})' in chapter
    gates, ups = (", ".join(f"{x:g}" for x in data[name]) for name in ("gates", "ups"))
    assert f"mx.array([{gates}]), mx.array([{ups}])" in chapter.replace("4.0,", "4,")


# Day 5: depth


def test_the_last_depth_is_the_solution_s_model(page):
    """After the last layer, the words and their probabilities are those of the solution's logits."""
    from tiny_llm_solution.basics import softmax

    widget, engine = Widget(page, "depth-words"), load_engine(None, solution=True, dtype="float32", stage="kv-cache")
    data = widget.data()
    for index, recorded in enumerate(data["sentences"]):
        sentence = "".join(recorded["tokens"]).replace("\N{OPEN BOX}", " ")
        shares = softmax(engine.logits(mx.array([engine.encode(sentence)]))[0].astype(mx.float32), -1)
        for position in range(len(recorded["tokens"])):
            state = widget.change(sentence=index, position=position)
            best = mx.sort(shares[position])[::-1][:4].tolist()
            assert [share for _, share in state["words"][-1]] == pytest.approx(best, abs=0.0011)
            likeliest = engine.tokenizer.decode([mx.argmax(shares[position]).item()])
            assert f"the model says “{likeliest.strip()}”" in widget.said()
            assert len(state["words"]) == len(state["added"]) + 1 == len(data["depths"])


# The front page


def test_the_story_s_probabilities_are_the_solution_s(page):
    """And every token of it is the model's: the words, put together, are one text that is encoded so."""
    from tiny_llm_solution.basics import softmax

    data, engine = (
        Widget(page, "story-teller").data(),
        load_engine(None, solution=True, dtype="float32", stage="kv-cache"),
    )
    told = data["prompt"] + "".join(step["said"][0] for step in data["steps"])
    tokens = engine.encode(told)
    first = len(tokens) - len(data["steps"])
    shares = np.array(softmax(engine.logits(mx.array([tokens]))[0].astype(mx.float32), -1))
    for place, step in enumerate(data["steps"], first):
        word, share = step["said"]
        assert word == engine.tokenizer.decode([tokens[place]])
        assert share == pytest.approx(shares[place - 1, tokens[place]], abs=0.0011)
        best = np.sort(shares[place - 1])[::-1][: len(step["best"])]
        np.testing.assert_allclose([p for _, p in step["best"]], best, atol=0.0011)


# Day 7: sampling

GRID = [
    {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    for temperature in (0, 0.3, 0.7, 1, 2)
    for top_k in (0, 1, 7, 50)
    for top_p in (0, 0.31, 0.9, 1)
    for min_p in (0, 0.05, 0.4, 1)
]


def test_sampling_is_the_solution_s(page):
    """The probabilities and what is left, in every combination of settings."""
    from tiny_llm_solution.basics import softmax
    from tiny_llm_solution.sampler import keep_min_p, keep_top_k, keep_top_p

    widget = Widget(page, "sampling-sliders")
    logits = mx.array([widget.data()["logits"]])
    states, texts = widget.look(GRID, ".say")
    for view, state, text in zip(GRID, states, texts, strict=True):
        if view["temperature"]:  # in the order of `make_sampler`
            left = logits / view["temperature"]
            left = keep_top_k(left, view["top_k"]) if view["top_k"] else left
            left = keep_min_p(keep_top_p(left, view["top_p"]), view["min_p"])
        else:
            left = mx.where(mx.arange(logits.size) == mx.argmax(logits), logits, -mx.inf)
        np.testing.assert_allclose(state["probabilities"], np.array(softmax(left, -1)[0]), atol=1e-6, err_msg=str(view))
        assert [not by for by in state["dropped"]] == mx.isfinite(left)[0].tolist(), view
        assert text.startswith(f"Left: {mx.isfinite(left).sum().item()} of {logits.size} tokens")


def test_sampling_goes_in_the_order_of_the_sampler(page):
    """What `make_sampler` draws for 300 rows is what the widget leaves."""
    from tiny_llm_solution.sampler import make_sampler

    widget = Widget(page, "sampling-sliders")
    logits = mx.array([widget.data()["logits"]] * 300)
    settings = {"top_k": 5, "top_p": 0.55, "min_p": 0.2}
    state = widget.change(temperature=2, **settings)
    drawn = make_sampler(temp=2, seed=3, **settings)(logits, [[]] * 300).tolist()
    assert {place for place, by in enumerate(state["dropped"]) if not by} == set(drawn)


def test_sampling_shows_its_probabilities(page):
    widget = Widget(page, "sampling-sliders")
    state = widget.change(temperature=0.7, top_k=9)
    rows = [row.locator("td").nth(1).inner_text() for row in widget.element.locator(".live tbody tr").all()]
    assert rows[:-1] == [f"{p:.3f}" for p in state["probabilities"][:12]]
    assert rows[-1] == "0.000"
    assert widget.element.locator("tr.dropped").count() == 4


def test_sampling_draws_what_is_left(page):
    widget = Widget(page, "sampling-sliders")
    widget.change(top_k=3)
    draws = widget.element.evaluate("e => Array.from({length: 3000}, () => e.drawOne())")
    shares = np.bincount(draws) / len(draws)
    np.testing.assert_allclose(shares, widget.state()["probabilities"][:3], atol=0.04)


def test_the_logits_in_the_book_are_those_of_the_embedded_model():
    data = day7.next_token_logits()
    assert f'"logits": {json.dumps(data["logits"])}' in present("1.7", "sampling-sliders")
    assert data["logits"] == sorted(data["logits"], reverse=True)

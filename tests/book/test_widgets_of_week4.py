"""The widgets of week 4: their numbers are those of the course's own code, and they need no mouse."""

from itertools import pairwise

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week1.heads import SENTENCES
from book.generate.week1.heads import model as embedded_model
from book.generate.week4 import day5
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


def test_the_bytes_in_the_cache_are_the_solution_s(page):
    from tiny_llm_solution.latent_attention.sizes import cache_size

    widget = Widget(page, "cache-bytes")
    for number, model in enumerate(widget.data()["models"].values()):
        config = {
            "num_attention_heads": model["heads"], "hidden_size": model["heads"] * model["dims"],
            "head_dim": model["dims"], "num_hidden_layers": model["layers"], "dtype": "bfloat16",
        }  # fmt: skip
        for share, latent in ((1, 64), (3, 512), (2, 1024)):
            state = widget.change(model=number, share=share, latent=latent, size=2)
            kinds = {
                "MHA": {"num_key_value_heads": model["heads"]},
                "GQA": {"num_key_value_heads": model["heads"] // 2**share},
                "MQA": {"num_key_value_heads": 1},
                "MLA": {"kv_lora_rank": latent, "qk_rope_head_dim": model["rope"]},
            }
            for kind, own in kinds.items():
                size = cache_size(config | own)
                assert (size.kind, size.elements, size.bytes) == (kind, state["numbers"][kind], state["bytes"][kind])


@pytest.mark.parametrize("_", range(3))
def test_the_bytes_in_the_cache_by_keyboard(page, _):
    widget = Widget(page, "cache-bytes")
    widget.focus("[name=model]")
    assert widget.press("ArrowDown")["model"] == 1
    widget.focus("#share")
    assert widget.press("End")["kv_heads"] == 1
    widget.focus("#latent")
    assert widget.press("Home")["numbers"]["MLA"] == 128
    widget.focus("#context")
    assert widget.press("ArrowLeft")["tokens"] == 2**16
    assert page.url == widget.address


def test_the_frequencies_of_each_scaling_are_the_solution_s(page):
    from tiny_llm_solution.long_context.interpolation import linear_frequencies
    from tiny_llm_solution.long_context.ntk import ntk_frequencies
    from tiny_llm_solution.long_context.yarn import yarn_frequencies

    widget = Widget(page, "rope-scaling")
    dims, base, trained = (widget.data()[name] for name in ("dims", "base", "trained"))
    unseen = {}
    for power in (0, 1, 3, 5):
        factor = 2.0**power
        kinds = {
            "none": linear_frequencies(dims, base, 1),
            "interpolation": linear_frequencies(dims, base, factor),
            "NTK-aware": ntk_frequencies(dims, base, factor),
            "YaRN": yarn_frequencies(dims, base, factor, trained)[0],
        }
        for kind, expected in kinds.items():
            state = widget.change(kind=kind, factor=power)
            np.testing.assert_allclose(state["frequencies"], np.array(expected), rtol=1e-5)
            unseen[kind, power] = sum(state["unseen"])
    assert all(unseen[kind, 0] == 0 for kind in ("none", "interpolation", "NTK-aware", "YaRN"))
    assert unseen["interpolation", 5] == unseen["YaRN", 5] == 0
    assert 0 < unseen["NTK-aware", 3] < unseen["none", 3] == 21


@pytest.mark.parametrize("_", range(3))
def test_rope_scaling_by_keyboard(page, _):
    widget = Widget(page, "rope-scaling")
    widget.focus("[value=none]")
    assert widget.press("ArrowDown")["kind"] == "interpolation"
    widget.focus("#factor")
    assert widget.press("End")["times"] == 32
    widget.focus("#pair")
    assert widget.press("Home")["pair"] == 0
    assert page.url == widget.address


def in_slots(cache):
    """The tokens in a rolling cache whose keys are token numbers plus 1: 0 is an empty slot."""
    return [int(key) - 1 if key else None for key in cache._keys.flatten().tolist()]


def test_the_mask_is_the_solution_s(page):
    from tiny_llm_solution.local_attention.masks import window_mask

    widget, sizes = Widget(page, "rolling-cache"), [(w, s) for w in range(1, 11) for s in range(5)]
    count = widget.data()["tokens"]
    views = [{"kind": 2, "window": window, "sinks": sinks} for window, sinks in sizes]
    states, _ = widget.look(
        [*views, {"kind": 1, "window": 3, "sinks": 2}, {"kind": 0, "window": 3, "sinks": 2}], ".say"
    )
    for state, (window, sinks) in zip(states, [*sizes, (3, 0), (None, 0)], strict=True):
        expected = np.array(window_mask(count, count, window, sinks)) == 0
        np.testing.assert_array_equal(state["mask"], expected)


@pytest.mark.parametrize("chunk", range(1, 9))
def test_the_slots_and_the_returned_keys_are_the_solution_s(page, chunk):
    """After each call, for every window and number of sinks; without a window, those of a ring for all tokens."""
    from tiny_llm_solution.local_attention.cache import RollingCache
    from tiny_llm_solution.local_attention.masks import window_mask

    widget = Widget(page, "rolling-cache")
    count, steps = widget.data()["tokens"], range(1, -(-widget.data()["tokens"] // chunk) + 1)
    config = embedded_model().config
    for window, sinks in [(w, s) for w in range(1, 11) for s in range(5)] + [(None, 0)]:
        view = {"kind": 0 if window is None else 2, "window": window or 1, "sinks": sinks, "chunk": chunk}
        states, _ = widget.look([view | {"step": step} for step in (0, *steps)], ".say")
        cache, before = RollingCache(window or count, sinks), [None] * (sinks + (window or count))
        assert not any(states[0]["returned"] + states[0]["overwritten"])
        for last, state in pairwise(states):
            new = mx.arange(state["first"], state["end"]).reshape(1, 1, -1, 1) + 1
            keys = (cache.update_and_fetch(new, new)[0].flatten() - 1).tolist()
            after = in_slots(cache)
            assert (state["end"], state["returned"]) == (cache.offset, keys)
            assert state["slots"] == (after if window else after[: cache.offset])
            changed = [
                [i, new] for i, (old, new) in enumerate(zip(before, after, strict=True)) if old not in (None, new)
            ]
            assert sorted(last["overwritten"]) == changed
            if len(new.flatten()) > 1:  # what a query sees of the returned keys is what it sees of all
                mask = np.array(window_mask(new.shape[2], len(keys), window, sinks)) == 0
                np.testing.assert_array_equal(np.array(state["mask"])[state["first"] : state["end"], keys], mask)
            real = mx.zeros((1, config["num_key_value_heads"], 1, config["head_dim"]), mx.bfloat16)
            kept = RollingCache(window or state["end"], sinks)
            kept.update_and_fetch(real, real)
            assert state["bytes"] == kept._keys.nbytes + kept._values.nbytes
            assert state["full"] == 2 * real.nbytes * state["end"]
            before = after


def test_the_chapter_s_answer_about_the_rolling_cache(page):
    widget = Widget(page, "rolling-cache")
    state = widget.change(kind=2, window=4, sinks=1, chunk=6, step=2)
    assert (len(state["returned"]), len(state["slots"])) == (10, 5)
    assert sorted(state["slots"]) == [0, 8, 9, 10, 11]
    assert "it returned 10 keys, and the cache now stores 5. The next call overwrites tokens 8 to 11." in widget.said()


@pytest.mark.parametrize("_", range(3))
def test_the_rolling_cache_by_keyboard(page, _):
    widget = Widget(page, "rolling-cache")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["at"] == 10
    assert widget.press("ArrowLeft", "Shift+Tab", "Enter")["at"] == 8
    widget.focus("#chunk")
    assert widget.press("End")["end"] == 8  # no token further than before
    widget.focus("#window")
    assert len(widget.press("Home")["slots"]) == 2
    widget.focus("[name=kind]")
    assert widget.press("ArrowUp")["sinks"] == 0
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('rolling-cache').state.at >= 2")
    assert page.url == widget.address


@pytest.mark.parametrize("k", range(1, 9))
def test_the_experts_load_is_the_solution_s(page, k):
    """Of the real scores without a bias; with biases, of scores that have them added, and the same probabilities."""
    from tiny_llm_solution.experts.load import load_statistics
    from tiny_llm_solution.experts.router import route

    widget, gate = Widget(page, "expert-load"), day5.router()
    x = mx.array(np.concatenate([day5.read_by_the_mlp(sentence) for sentence in SENTENCES])).astype(mx.float32)
    scores = x @ mx.array(gate).astype(mx.float32).T
    probabilities = mx.softmax(scores, axis=-1)
    states, _ = widget.look([{"k": k, "step": step} for step in range(21)], ".say")
    biases = np.zeros(len(gate))
    for step, state in enumerate(states):
        np.testing.assert_allclose(state["bias"], biases, atol=1e-9)
        if step:  # a bias is one more column of the router's matrix
            read = mx.concatenate([scores, mx.ones((len(x), 1))], axis=-1)
            indices, _ = route(
                read, mx.array(np.column_stack([np.eye(len(gate)), biases])).astype(mx.float32), k, False
            )
        else:
            indices, _ = route(x, mx.array(gate).astype(mx.float32), k, False)
        load = load_statistics(indices, probabilities)
        assert state["tokens"] == load.tokens.tolist()
        assert state["imbalance"] == pytest.approx(load.imbalance.item(), abs=1e-5)
        assert state["loss"] == pytest.approx(load.auxiliary_loss.item(), abs=1e-4)
        count = len(day5.read_by_the_mlp(SENTENCES[0]))
        assert [sorted(chosen) for chosen in state["chosen"]] == np.sort(np.array(indices)[:count], -1).tolist()
        biases -= day5.RATE * np.sign(np.array(state["tokens"]) - state["even"])


def test_the_chapter_s_answer_about_the_load(page):
    widget = Widget(page, "expert-load")
    found = [widget.change(k=k, step=step)["imbalance"] for k, step in ((1, 0), (2, 0), (2, 10), (2, 20))]
    assert [round(imbalance, 2) for imbalance in found] == [2.64, 1.98, 1.15, 1.15]
    assert "1.15 times as many. After 10 updates" in (widget.change(k=2, step=10), widget.said())[1]


@pytest.mark.parametrize("_", range(3))
def test_the_experts_load_by_keyboard(page, _):
    widget = Widget(page, "expert-load")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["step"] == 2
    assert widget.press("Shift+Tab", "Enter")["step"] == 1
    widget.focus("#k")
    assert widget.press("End")["imbalance"] == 1
    assert "Every expert has as many" in widget.said()
    widget.focus("#step")
    assert widget.press("End")["step"] == 20
    widget.focus("[name=sentence]")
    assert widget.press("ArrowDown")["sentence"] == 1
    widget.focus("#play")
    widget.press("Enter")  # from the beginning
    page.wait_for_function("(({ step }) => step > 1 && step < 20)(document.querySelector('expert-load').state)")
    assert page.url == widget.address

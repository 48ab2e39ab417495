"""The widgets of week 4: their numbers are those of the course's own code, and they need no mouse."""

import numpy as np
import pytest
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

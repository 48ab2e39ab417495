"""The widgets of week 4: their numbers are those of the course's own code, and they need no mouse."""

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

"""Task 4.6.2, what sharing saves: counts are those of arrays that exist."""

import pytest
from tests.week1.reference_model import QWEN3, QWEN25, by_architecture, by_head, embedded_model, random_model
from tests.week2.counting import same_counts
from tests.week4.formulas_day6 import counts_of

from tiny_llm.config import ModelConfig
from tiny_llm.weight_sharing import counting, counts
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.sizes import sizes


def of(whole):
    return ModelConfig.from_dict(whole.config)


def check_counts(base, distinct, *, swept=False, **measures):
    whole = random_model(base, 1, **measures)
    case = f"{whole}, {distinct} stored"
    with noted(case):
        found = counting.count_shared(of(whole), distinct)
    size = whole.config["num_hidden_layers"] * whole.config["hidden_size"]
    same_counts(found, counts.Counts, counts_of(whole, distinct), case, size, swept)


@by_head
@by_architecture
def test_task_2_counts_arrays(base, tied):
    """Count the numbers of a file's arrays."""
    for distinct in (1, 2, 3, 6):
        check_counts(base, distinct, num_hidden_layers=6, tie_word_embeddings=tied)


@by_head
def test_task_2_counts_nothing_shared(tied):
    check_counts(QWEN3, 2, tie_word_embeddings=tied)


def test_task_2_counts_the_embedded_model():
    """What chapter 1.5 counts in the course's model file."""
    config = ModelConfig.from_dict(embedded_model().config)
    case = "the course's model, 6 layers, 6 stored"
    with noted(case):
        found = counting.count_shared(config, 6)
    same_counts(found, counts.Counts, {"stored": 4755456, "macs": 4751360, "cached": 1536}, case, 6)


def test_task_2_counts_sweep():
    for n in sizes(R=4, K=5, H=3, G=3, P=65, I=300, V=1100):
        measures = {
            "num_hidden_layers": n.R * n.K,
            "num_key_value_heads": n.H,
            "num_attention_heads": n.H * n.G,
            "head_dim": 2 * min(n.P, 20),
            "hidden_size": 3 * n.P,
            "intermediate_size": n.I,
            "vocab_size": n.V,
            "tie_word_embeddings": n.turn(True, False, True),
        }
        check_counts(n.turn(QWEN3, QWEN25), n.K, swept=True, **measures)


@pytest.mark.parametrize(("layers", "distinct"), [(6, 4), (3, 6), (6, 0), (6, -1)])
def test_task_2_counts_refuses_what_does_not_divide(layers, distinct):
    config = ModelConfig.from_dict({**QWEN3, "num_hidden_layers": layers})
    with raises_value_error(f"{layers} layers, {distinct} stored", str(layers), str(distinct)):
        counting.count_shared(config, distinct)

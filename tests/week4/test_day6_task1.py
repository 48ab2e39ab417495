"""Task 4.6.1, weight owners, found by counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day6 import ORDERS, owners_of

from tiny_llm.weight_sharing import owners
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids

by_order = pytest.mark.parametrize("order", ORDERS)


def check_owners(layers, distinct, order):
    case = f"layer 0 to {layers - 1} of {layers} layers, {distinct} stored, {order}"
    found = again(lambda: [owners.weight_owner(n, layers, distinct, order) for n in range(layers)], case)
    same_ids(found, owners_of(layers, distinct, order), case)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("sequence", [0, 0, 1, 1, 2, 2]), ("cycle", [0, 1, 2, 0, 1, 2]), ("cycle_reversed", [0, 1, 2, 2, 1, 0])],
)
def test_task_1_owner_six_layers(order, expected):
    """The example of the chapter."""
    case = f"layer 0 to 5 of 6 layers, 3 stored, {order}"
    same_ids(again(lambda: [owners.weight_owner(n, 6, 3, order) for n in range(6)], case), expected, case)


@by_order
def test_task_1_owner_more_rounds(order):
    check_owners(9, 3, order)
    check_owners(8, 2, order)


@by_order
def test_task_1_owner_of_one_and_of_all(order):
    """One set of weights for all layers, and one per layer."""
    for layers, distinct in ((5, 1), (5, 5), (1, 1), (2, 1), (2, 2)):
        check_owners(layers, distinct, order)


def test_task_1_owner_sweep():
    for n in sizes(R=20, K=20):
        check_owners(n.R * n.K, n.K, n.turn(*ORDERS))
    for layers, distinct in ((61, 1), (64, 16), (80, 20), (96, 48), (130, 65), (44, 22), (52, 26), (49, 49)):
        for order in ORDERS:
            check_owners(layers, distinct, order)


@property_test
@given(rounds=st.integers(1, 6), distinct=st.integers(1, 7), order=st.sampled_from(ORDERS))
def test_task_1_owner_equal_use(rounds, distinct, order):
    """Each stored layer is used equally often."""
    layers = rounds * distinct
    case = f"{layers} layers, {distinct} stored, {order}"
    with noted(case):
        found = [owners.weight_owner(n, layers, distinct, order) for n in range(layers)]
    same_ids([found.count(owner) for owner in range(distinct)], [rounds] * distinct, f"how often each is used; {case}")


@pytest.mark.parametrize(("layers", "distinct"), [(6, 4), (3, 6), (6, 0), (6, -2)])
def test_task_1_owner_refuses_what_does_not_divide(layers, distinct):
    for order in ORDERS:
        with raises_value_error(f"layer 0 of {layers} layers, {distinct} stored", str(layers), str(abs(distinct))):
            owners.weight_owner(0, layers, distinct, order)


@pytest.mark.parametrize("layer", [6, -1])
def test_task_1_owner_refuses_another_layer(layer):
    for order in ORDERS:
        with raises_value_error(f"layer {layer} of 6 layers, 3 stored, {order}"):
            owners.weight_owner(layer, 6, 3, order)


def test_task_1_owner_refuses_another_order():
    with raises_value_error("layer 0 of 6 layers, 3 stored, zigzag", "zigzag"):
        owners.weight_owner(0, 6, 3, "zigzag")


@pytest.mark.parametrize(("layer", "order"), [(0, "zigzag"), (3, "cycle"), (-1, "sequence")])
def test_task_1_owner_refuses_the_same_if_all_are_stored(layer, order):
    with raises_value_error(f"layer {layer} of 3 layers, 3 stored, {order}"):
        owners.weight_owner(layer, 3, 3, order)

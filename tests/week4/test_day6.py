"""Week 4, day 6: weights that are used more than once.

Owners are counted out, counts are those of arrays that exist, a model whose layers share is week 1's formula for a file
with copies, and the gradient of a tied table is PyTorch's.
"""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, QWEN25, embedded_model, model64, random_model, random_tokens
from tests.week2.counting import same_counts
from tests.week2.doubling import Doubling, halved
from tests.week2.in_parts import Parts, in_parts, parts_of
from tests.week4.formulas_day6 import (
    ORDERS,
    Sharing,
    counts_of,
    gradient64,
    logits64,
    loss64,
    owners_of,
    stored_only,
    with_copies,
)

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached.cache import KVCache
from tiny_llm.weight_sharing import counting, counts, model, owners, tied_table
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes, sweep
from tiny_llm_course.testkit.texts import again, same_ids

by_architecture = pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
by_head = pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
by_order = pytest.mark.parametrize("order", ORDERS)


def of(whole):
    return ModelConfig.from_dict(whole.config)


# Task 1, whose weights


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
    """One set of weights for all layers, and a set for each."""
    for layers, distinct in ((5, 1), (5, 5), (1, 1), (2, 1), (2, 2)):
        check_owners(layers, distinct, order)


def test_task_1_owner_sweep():
    for n in sizes(R=20, K=20):
        check_owners(n.R * n.K, n.K, n.turn(*ORDERS))
    for layers, distinct in ((61, 1), (64, 16), (80, 20), (96, 48), (130, 65)):
        for order in ORDERS:
            check_owners(layers, distinct, order)


@property_test
@given(rounds=st.integers(1, 6), distinct=st.integers(1, 7), order=st.sampled_from(ORDERS))
def test_task_1_owner_each_as_often(rounds, distinct, order):
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


# Task 2, what sharing saves


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
    """The numbers of a file's arrays."""
    for distinct in (1, 2, 3, 6):
        check_counts(base, distinct, num_hidden_layers=6, tie_word_embeddings=tied)


@by_head
def test_task_2_counts_nothing_shared(tied):
    check_counts(QWEN3, 2, tie_word_embeddings=tied)


def test_task_2_counts_the_embedded_model():
    """What chapter 1.5 counts in the file that comes with the course."""
    config = ModelConfig.from_dict(embedded_model().config)
    case = "the model that comes with the course, 6 layers, 6 stored"
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


@pytest.mark.parametrize(("layers", "distinct"), [(6, 4), (3, 6), (6, 0)])
def test_task_2_counts_refuses_what_does_not_divide(layers, distinct):
    config = ModelConfig.from_dict({**QWEN3, "num_hidden_layers": layers})
    with raises_value_error(f"{layers} layers, {distinct} stored", str(layers), str(distinct)):
        counting.count_shared(config, distinct)


# Task 3, a model whose layers share


def at_every_position(whole, parts):
    def run(tokens):
        caches = whole.new_caches()

        def rewind(count):
            for each in caches:
                each.rewind(count)

        return in_parts(lambda part: whole(part, caches, all_positions=True), rewind, tokens, parts)

    return run


@built
def logits(tokens, model_, sharing, parts):
    program = model.SharedLayersModel(of(model_), model_.weights, sharing.distinct, sharing.order)
    return at_every_position(program, parts)


@built
def logits_by_other_parts(tokens, model_, sharing, parts):
    program = model.SharedLayersModel(of(model_), halved(model_).weights, sharing.distinct, sharing.order, Doubling())
    return at_every_position(program, parts)


@built
def logits_by_steps(tokens, model_, sharing, parts):
    """Without caches of its own, one call for the whole text."""
    program = model.SharedLayersModel(of(model_), model_.weights, sharing.distinct, sharing.order)
    return lambda tokens: program(tokens, all_positions=True)


def sharing_model(base, seed, layers=4, distinct=2, dtype=mx.float32, **changes):
    return stored_only(random_model(base, seed, dtype, num_hidden_layers=layers, **changes), distinct)


@by_dtype
@by_order
def test_task_3_model_formula(order, dtype):
    whole = sharing_model(QWEN3, 1, dtype=dtype)
    agrees(logits, logits64, random_tokens(1, 2, 5), whole, Sharing(2, order), Parts((3, 2)), seed=1, dtype=dtype)


@by_head
@by_architecture
def test_task_3_model_architectures(base, tied):
    whole = sharing_model(base, 2, 6, 3, tie_word_embeddings=tied)
    for parts in ((5,), (1, 1, 1, 1, 1), (2, -3, 3)):
        sharing = Sharing(3, "cycle")
        agrees(logits, logits64, random_tokens(2, 2, 5), whole, sharing, Parts(parts), seed=2, dtype=mx.float32)


@by_order
def test_task_3_model_one_and_all(order):
    """One set of weights for three layers, and a set for each."""
    for distinct in (1, 3):
        whole = sharing_model(QWEN3, 3, 3, distinct)
        sharing = Sharing(distinct, order)
        agrees(logits, logits64, random_tokens(3, 2, 4), whole, sharing, Parts((2, 2)), seed=3, dtype=mx.float32)


@by_order
def test_task_3_model_without_caches(order):
    whole = sharing_model(QWEN25, 4, 6, 3)
    sharing = Sharing(3, order)
    agrees(logits_by_steps, logits64, random_tokens(4, 2, 5), whole, sharing, Parts((5,)), seed=4, dtype=mx.float32)


def test_task_3_model_other_weights_left_alone():
    """A file in which the layers that are not stored lie all the same, and a head that is not used."""
    whole = random_model(QWEN3, 5, num_hidden_layers=4, tie_word_embeddings=True)
    whole = whole.with_weights(**{"lm_head.weight": normals(50)(29, 12)})
    sharing = Sharing(2, "cycle")
    agrees(logits, logits64, random_tokens(5, 2, 5), whole, sharing, Parts((2, 3)), seed=5, dtype=mx.float32)


@by_architecture
def test_task_3_model_by_other_parts(base):
    """Its matrices are halved, and the parts that it is given double what a matrix gives."""
    whole, sharing = sharing_model(base, 6), Sharing(2, "sequence")
    tokens = random_tokens(6, 2, 5)
    agrees(logits_by_other_parts, logits64, tokens, whole, sharing, Parts((2, 3)), seed=6, dtype=mx.float32)


class Counting(Doubling):
    """Notes what is made."""

    def __init__(self):
        self.made = []

    def projection(self, weights, name, bias=False):
        self.made.append(name)
        return super().projection(weights, name, bias)


@by_order
def test_task_3_model_makes_each_matrix_once(order):
    """12 layers of 2 sets: 14 matrices and the head, and not 84."""
    whole, parts = sharing_model(QWEN3, 7, 12, 2), Counting()
    case = f"{whole}, 2 stored, {order}, parts that note what they make"
    with noted(case):
        model.SharedLayersModel(of(whole), whole.weights, 2, order, parts)
    if len(parts.made) != 15:
        headline = f"{len(parts.made)} matrices are made for 2 stored layers and a head"
        fail(Kind.VALUES, headline, case, "expected  15", f"got       {len(parts.made)}")


@pytest.mark.parametrize(("layers", "distinct"), [(1, 1), (4, 1), (4, 2), (6, 3)])
def test_task_3_model_makes_a_cache_for_each_layer(layers, distinct):
    whole = sharing_model(QWEN3, 8, layers, distinct)
    case = f"new_caches() of {whole}, {distinct} stored"
    with noted(case):
        made = model.SharedLayersModel(of(whole), whole.weights, distinct, "sequence").new_caches()
    if not isinstance(made, list) or not all(getattr(each, "offset", None) == 0 for each in made):
        fail(Kind.TYPE, f"got {type_words(made)}, expected a list of empty caches", case)
    if (count := len({id(each) for each in made})) != layers or len(made) != layers:
        lines = f"expected  {layers}, all different", f"got       {len(made)}, of which {count} differ"
        fail(Kind.VALUES, "another number of caches", case, *lines)


@by_order
def test_task_3_model_reads_into_the_caches(order):
    """Each of the caller's caches then holds every token once."""
    whole, tokens = sharing_model(QWEN3, 9), random_tokens(9, 2, 5)
    case = f"float32, tokens 2 x 5, {whole}, 2 stored, {order}, parts 2 + 3, caches in blocks of 4, seed 9"
    with noted(case):
        caches = [KVCache(4) for _ in range(4)]
        program = model.SharedLayersModel(of(whole), whole.weights, 2, order)
        found = [program(part, caches, all_positions=True) for part in (tokens[:, :2], tokens[:, 2:])]
        offsets = [each.offset for each in caches]
    if offsets != [5] * 4:
        fail(Kind.VALUES, "the caches' offsets are wrong", case, "expected  [5, 5, 5, 5]", f"got       {offsets}")
    expected = model64(to_float64(tokens), with_copies(whole, Sharing(2, order)))
    compare(mx.concatenate(found, axis=1), expected, mx.float32, 1e-4, case, tokens.size)


def test_task_3_model_last_position():
    whole, tokens = sharing_model(QWEN3, 10), random_tokens(10, 2, 5)
    case = f"float32, tokens 2 x 5, {whole}, 2 stored, cycle, the last position alone"
    with noted(case):
        actual = model.SharedLayersModel(of(whole), whole.weights, 2, "cycle")(tokens)
    expected = model64(to_float64(tokens), with_copies(whole, Sharing(2, "cycle")))[:, -1:]
    compare(actual, expected, mx.float32, 1e-4, case, tokens.size)


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_task_3_model_refuses_another_number_of_caches(count):
    """Also as many as are stored."""
    whole = sharing_model(QWEN3, 11)
    with raises_value_error(f"{whole}, 2 stored, tokens 1 x 2, {count} caches", str(count), "4"):
        program = model.SharedLayersModel(of(whole), whole.weights, 2, "cycle")
        mx.eval(program(random_tokens(11, 1, 2), [KVCache() for _ in range(count)]))


@by_order
def test_task_3_model_refuses_what_does_not_divide(order):
    whole = random_model(QWEN3, 12, num_hidden_layers=4)
    with raises_value_error(f"{whole}, 3 stored, {order}", "4", "3"):
        model.SharedLayersModel(of(whole), whole.weights, 3, order)


@by_architecture
def test_task_3_model_needs_every_stored_weight(base):
    whole = sharing_model(base, 13, 2, 1)
    for name in whole.weights:
        with raises_error(KeyError, f"building {whole}, 1 stored, without {name}"):
            model.SharedLayersModel(of(whole), whole.without(name).weights, 1, "cycle")


def test_task_3_model_sweep():
    for n in sizes(N=3, L=33, R=4, K=4, V=131):
        measures = {"vocab_size": n.V, "tie_word_embeddings": n.turn(True, False, False)}
        whole = sharing_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, n.R * n.K, n.K, **measures)
        tokens = mx.array(token_ids(n.seed, n.V, n.N * n.L)).reshape(n.N, n.L)
        sharing = Sharing(n.K, n.turn(*ORDERS))
        agrees(logits, logits64, tokens, whole, sharing, parts_of(n.seed + n.L, n.L), seed=n, dtype=mx.float32)


# Task 4, a table at both ends


def loss(table, tokens, targets):
    return parted(table, tokens, targets)[0]


def gradient(table, tokens, targets):
    return parted(table, tokens, targets)[1]


def parted(table, tokens, targets):
    both = tied_table.loss_and_gradient(table, tokens, targets)
    if not isinstance(both, tuple | list) or len(both) != 2:
        raise CheckFailed(Finding(Kind.TYPE, f"returned {type_words(both)}, expected a loss and a gradient", ()))
    return both


def check_tied(table, tokens, targets, *, seed, **options):
    agrees(loss, loss64, table, tokens, targets, seed=seed, dtype=mx.float32)
    agrees(gradient, gradient64, table, tokens, targets, seed=seed, **options)


def ids(seed, vocab_size, count):
    return mx.array(token_ids(seed, vocab_size, count)), mx.array(token_ids(seed + 1000, vocab_size, count))


@by_dtype
def test_task_4_tied_formula(dtype):
    check_tied(normals(1, dtype)(7, 4), mx.array([1, 5, 3]), mx.array([5, 3, 6]), seed=1)


def test_task_4_tied_one_token():
    check_tied(normals(2)(5, 3), mx.array([2]), mx.array([4]), seed=2)


def test_task_4_tied_a_token_comes_twice():
    """What is read twice is moved twice, and what comes twice as well."""
    check_tied(normals(3)(6, 4), mx.array([1, 4, 1, 1]), mx.array([2, 5, 3, 2]), seed=3)


def test_task_4_tied_repeats_itself():
    """The target is the token that was read."""
    check_tied(normals(4)(6, 4), mx.array([2, 5]), mx.array([2, 0]), seed=4)


def test_task_4_tied_square():
    """As many tokens as features, and as are read."""
    check_tied(normals(5)(4, 4), *ids(5, 4, 4), seed=5)


@by_dtype
def test_task_4_tied_huge_logits(dtype):
    """Logits near 1,000, of which exp knows nothing."""
    check_tied(normals(6, dtype)(6, 5, spread=15), *ids(6, 6, 4), seed=6)


def test_task_4_tied_zeros():
    """Rows of zeros: each token is equally likely, and nothing tells where to go."""
    table = mx.zeros((8, 3))
    case = "float32, table 8 x 3 of zeros, tokens 2, targets 2"
    with noted(case):
        cost, moved = parted(table, mx.array([0, 1]), mx.array([2, 3]))
    compare(cost, to_float64(mx.log(mx.array(8.0))), mx.float32, 1e-6, case, 2)
    compare(moved, to_float64(table), mx.float32, 0.0, case, 2)


def test_task_4_tied_pytorch(pytorch):
    """By autograd, which adds up both uses by itself."""

    def both(torch, table, tokens, targets):
        table = table.clone().requires_grad_(True)
        logits = torch.nn.functional.linear(torch.nn.functional.embedding(tokens.long(), table), table)
        cost = torch.nn.functional.cross_entropy(logits, targets.long())
        cost.backward()
        return torch.cat([cost.detach()[None], table.grad.flatten()])

    table, (tokens, targets) = normals(7)(9, 5), ids(7, 9, 6)
    answer = pytorch(both, table, tokens, targets)
    agrees(loss, loss64, table, tokens, targets, seed=7, expected=answer[0], dtype=mx.float32)
    agrees(gradient, gradient64, table, tokens, targets, seed=7, expected=answer[1:].reshape(9, 5))


@property_test
@given(seed=st.integers(0, 99), count=st.integers(1, 6))
def test_task_4_tied_a_small_step_lowers_the_loss(seed, count):
    """Against the gradient, by very little, the loss falls by the square of the gradient's length."""
    table, (tokens, targets) = normals(seed)(7, 4), ids(seed, 7, count)
    case = f"float32, table 7 x 4, tokens {count}, targets {count}, a step of 0.001 against the gradient, seed {seed}"
    with noted(case):
        before, moved = parted(table, tokens, targets)
        after, _ = parted(table - 1e-3 * moved, tokens, targets)
        fallen, promised = float(before - after), 1e-3 * float(mx.sum(moved * moved))
    if abs(fallen - promised) > 0.05 * promised + 1e-5:
        fail(
            Kind.VALUES,
            "the loss does not fall as the gradient says",
            case,
            f"expected  {promised:.4g}",
            f"got       {fallen:.4g}",
        )


def test_task_4_tied_sweep():
    for n in sweep(L=131, V=1009, E=257):
        # So wide that logits are of unit variance, times what the sweep draws.
        table = normals(n.seed, n.dtype)(n.V, n.E, spread=n.E**-0.25) * min(n.spread, 30)
        check_tied(table, *ids(n.seed, n.V, n.L), seed=n)

"""Task 4.6.3, a model with shared layers, checked against week 1's formula for a file with copies."""

import itertools

import mlx.core as mx
import pytest
from tests.week1.reference_model import QWEN3, QWEN25, by_architecture, by_head, model64, random_model, random_tokens
from tests.week2.doubling import Counting, Doubling, halved
from tests.week2.in_parts import Parts, in_parts, parts_of
from tests.week4.formulas_day6 import ORDERS, Sharing, logits64, stored_only, with_copies

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3_cached.cache import KVCache
from tiny_llm.weight_sharing import model
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_error, raises_value_error
from tiny_llm_course.testkit.inputs import normals, token_ids
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes

by_order = pytest.mark.parametrize("order", ORDERS)


def of(whole):
    return ModelConfig.from_dict(whole.config)


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
    """Without caches of its own, one call for the whole sequence."""
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
    """One set of weights for three layers, and one per layer."""
    for distinct in (1, 3):
        whole = sharing_model(QWEN3, 3, 3, distinct)
        sharing = Sharing(distinct, order)
        agrees(logits, logits64, random_tokens(3, 2, 4), whole, sharing, Parts((2, 2)), seed=3, dtype=mx.float32)


@by_order
def test_task_3_model_without_caches(order):
    whole = sharing_model(QWEN25, 4, 6, 3)
    sharing = Sharing(3, order)
    agrees(logits_by_steps, logits64, random_tokens(4, 2, 5), whole, sharing, Parts((5,)), seed=4, dtype=mx.float32)


def test_task_3_model_ignores_other_weights():
    """A file that also contains the weights of layers that are not stored, and an unused head."""
    whole = random_model(QWEN3, 5, num_hidden_layers=4, tie_word_embeddings=True)
    whole = whole.with_weights(**{"lm_head.weight": normals(50)(29, 12)})
    sharing = Sharing(2, "cycle")
    agrees(logits, logits64, random_tokens(5, 2, 5), whole, sharing, Parts((2, 3)), seed=5, dtype=mx.float32)


@by_architecture
def test_task_3_model_other_layer_factory(base):
    """The weights are halved, and the layer factory doubles what a matrix returns."""
    whole, sharing = sharing_model(base, 6), Sharing(2, "sequence")
    tokens = random_tokens(6, 2, 5)
    agrees(logits_by_other_parts, logits64, tokens, whole, sharing, Parts((2, 3)), seed=6, dtype=mx.float32)


@by_order
def test_task_3_model_makes_each_matrix_once(order):
    """12 layers of 2 sets: 14 matrices and the head, instead of 84."""
    whole, parts = sharing_model(QWEN3, 7, 12, 2), Counting()
    case = f"{whole}, 2 stored, {order}, a layer factory that records what it builds"
    with noted(case):
        model.SharedLayersModel(of(whole), whole.weights, 2, order, parts)
    if len(parts.made) != 15:
        headline = f"{len(parts.made)} matrices are built for 2 stored layers and a head"
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
        fail(Kind.VALUES, "wrong number of caches", case, *lines)


@by_order
def test_task_3_model_fills_the_caches(order):
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
    case = f"float32, tokens 2 x 5, {whole}, 2 stored, cycle, only the last position"
    with noted(case):
        actual = model.SharedLayersModel(of(whole), whole.weights, 2, "cycle")(tokens)
    expected = model64(to_float64(tokens), with_copies(whole, Sharing(2, "cycle")))[:, -1:]
    compare(actual, expected, mx.float32, 1e-4, case, tokens.size)


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_task_3_model_refuses_another_number_of_caches(count):
    """Including as many as are stored."""
    whole = sharing_model(QWEN3, 11)
    with raises_value_error(f"{whole}, 2 stored, tokens 1 x 2, {count} caches", str(count), "4"):
        program = model.SharedLayersModel(of(whole), whole.weights, 2, "cycle")
        mx.eval(program(random_tokens(11, 1, 2), [KVCache() for _ in range(count)]))


@by_order
def test_task_3_model_refuses_what_does_not_divide(order):
    whole = random_model(QWEN3, 12, num_hidden_layers=4)
    with raises_value_error(f"{whole}, 3 stored, {order}", "4", "3"):
        model.SharedLayersModel(of(whole), whole.weights, 3, order)


def test_task_3_model_refuses_another_order():
    whole = sharing_model(QWEN3, 14)
    with raises_value_error(f"building {whole}, 2 stored, zigzag", "zigzag"):
        model.SharedLayersModel(of(whole), whole.weights, 2, "zigzag")


@by_architecture
def test_task_3_model_needs_every_stored_weight(base):
    whole = sharing_model(base, 13, 2, 1)
    for name in whole.weights:
        with raises_error(KeyError, f"building {whole}, 1 stored, without {name}"):
            model.SharedLayersModel(of(whole), whole.without(name).weights, 1, "cycle")


@pytest.mark.parametrize("third", range(3))
def test_task_3_model_sweep(third):
    for n in itertools.islice(sizes(N=3, L=33, R=4, K=4, V=131), third, None, 3):
        measures = {"vocab_size": n.V, "tie_word_embeddings": n.turn(True, False, False)}
        whole = sharing_model(n.turn(QWEN3, QWEN25, QWEN3), n.seed, n.R * n.K, n.K, **measures)
        tokens = mx.array(token_ids(n.seed, n.V, n.N * n.L)).reshape(n.N, n.L)
        sharing = Sharing(n.K, n.turn(*ORDERS))
        agrees(logits, logits64, tokens, whole, sharing, parts_of(n.seed + n.L, n.L), seed=n, dtype=mx.float32)

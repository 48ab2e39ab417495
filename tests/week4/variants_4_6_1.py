"""Known programs of task 4.6.1, whose weights."""

import mlx.core as mx

from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.6.1")

ORDERS = ("sequence", "cycle", "cycle_reversed")


def owners(program, layers, distinct, order):
    return mx.array([program(n, layers, distinct, order) for n in range(layers)], mx.float32)


def refused(program, *calls):
    return refusals(lambda call: program(*call), calls)


known.probe_table(
    sequence=lambda program: (owners(program, 6, 3, "sequence"), owners(program, 8, 2, "sequence")),
    cycle=lambda program: (owners(program, 6, 3, "cycle"), owners(program, 8, 2, "cycle")),
    reversed=lambda program: owners(program, 6, 3, "cycle_reversed"),
    reversed_of_three_rounds=lambda program: owners(program, 9, 3, "cycle_reversed"),
    sequence_of_many=lambda program: owners(program, 44, 22, "sequence"),
    reversed_of_four_rounds=lambda program: owners(program, 12, 3, "cycle_reversed"),
    all_stored=lambda program: tuple(owners(program, 5, 5, order) for order in ORDERS),
    one_stored=lambda program: tuple(owners(program, 3, 1, order) for order in ORDERS),
    refuses_what_does_not_divide=lambda program: refused(
        program, *((0, layers, distinct, order) for layers, distinct in ((6, 4), (3, 6)) for order in ORDERS)
    ),
    refuses_less_than_one=lambda program: refused(program, *((0, 6, -2, order) for order in ORDERS)),
    refuses_layers=lambda program: refused(program, (6, 6, 3, "cycle"), (-1, 6, 3, "sequence")),
    refuses_orders=lambda program: refused(program, (0, 6, 3, "zigzag")),
)

known.not_timed("a few divisions")

known.change(
    "divided-by-distinct",
    ("layer // (layers // distinct)", "layer // distinct"),
    fact='in "sequence", a layer\'s number is divided by the number of stored layers, not by how often each is used',
    question="Eight layers, two stored: how many consecutive layers share weights?",
)
known.change(
    "sequence-and-cycle-exchanged",
    (
        'if order == "sequence":',
        'order = {"sequence": "cycle", "cycle": "sequence"}.get(order, order)\nif order == "sequence":',
    ),
    fact='the orders "sequence" and "cycle" are swapped',
    question="Read 0 0 1 1 2 2 aloud: is that one round after another, or each layer several times in a row?",
)
known.change(
    "always-in-sequence",
    ('if order == "sequence":', "if order in ORDERS:"),
    fact="consecutive layers share their weights in every order",
    question='In "cycle", which is the next layer with layer 0\'s weights?',
)
known.change(
    "every-second-round-reversed",
    ("layers > distinct and layer >= layers - distinct", "layer // distinct % 2 == 1"),
    fact='in "cycle_reversed", every second round is reversed instead of only the last',
    question="Nine layers, three stored: which of the three rounds is reversed?",
)
known.change(
    "every-round-but-the-first-reversed",
    ("layer >= layers - distinct", "layer >= distinct"),
    fact='in "cycle_reversed", all rounds but the first are reversed',
    question="Nine layers, three stored: in which direction does the second round run?",
)
known.change(
    "single-round-reversed",
    ("layers > distinct and layer >= layers - distinct", "layer >= layers - distinct"),
    fact='in "cycle_reversed", a single round is also reversed',
    question="If all layers are stored, whose weights should layer 0 use?",
)
known.change(
    "second-half-reversed",
    ("layer >= layers - distinct", "layer >= layers / 2"),
    ("return distinct - 1 - place if", "return (layers - 1 - layer) % distinct if"),
    fact='in "cycle_reversed", the second half of the layers mirrors the first',
    question="Nine layers, three stored: at which layer does the reversed round start?",
)
known.change(
    "divided-in-floating-point",
    ("layer // (layers // distinct)", "int(layer / layers * distinct)"),
    fact='in "sequence", the layer\'s share of all layers is computed in floating point and then rounded down',
    question="What is 7 / 22 * 22 in Python, and what does int make of it?",
)
known.change(
    "never-reversed",
    ('distinct - 1 - place if order == "cycle_reversed" and last_of_several else place', "place"),
    fact='"cycle_reversed" is the same as "cycle"',
    question="What does the word after the underscore say about the last round?",
)
known.change(
    "all-rounds-reversed",
    ('order == "cycle_reversed" and last_of_several', 'order == "cycle_reversed" and layers > distinct'),
    fact='in "cycle_reversed", every round is reversed, including the first',
    question="With which stored layer does the first round start?",
)
known.change(
    "one-too-many-backwards",
    ("return distinct - 1 - place", "return distinct - place"),
    fact="a reversed round starts with index `distinct`, a layer that is not stored",
    question="Three layers are stored. What is the index of the last?",
)
known.change(
    "remainder-not-refused",
    ("if distinct < 1 or layers % distinct:", "if distinct < 1 or distinct > layers:"),
    fact="a number of layers that `distinct` does not divide is accepted",
    question="Six layers, four stored: how often is each used?",
)
known.change(
    "below-one-not-refused",
    ("if distinct < 1 or layers % distinct:", "if layers % distinct:"),
    fact="a number of stored layers below 1 is accepted",
    question="What is 6 % -2 in Python?",
)
known.change(
    "any-layer",
    ("if not 0 <= layer < layers:", "if False:"),
    fact="a layer out of range is accepted",
    question="A model has six layers. Is there a layer 6?",
)
known.change(
    "any-order",
    ("if order not in ORDERS:", "if False:"),
    fact='an unknown order is treated as "cycle"',
    question="What should happen if a caller mistypes an order?",
)


@known.accepted("listed-and-looked-up")
def listed(layer, layers, distinct, order):
    if distinct < 1 or layers % distinct:
        raise ValueError(f"{distinct} stored layers do not make {layers}")
    rounds, one = layers // distinct, list(range(distinct))
    found = {
        "sequence": [owner for owner in one for _ in range(rounds)],
        "cycle": one * rounds,
        "cycle_reversed": one * (rounds - 1) + (one[::-1] if rounds > 1 else one),
    }
    if order not in found or not 0 <= layer < layers:
        raise ValueError(f"{order}, layer {layer}")
    return found[order][layer]

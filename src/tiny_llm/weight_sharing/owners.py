"""Which stored layer each layer takes its weights from."""

ORDERS = ("sequence", "cycle", "cycle_reversed")


def weight_owner(layer: int, layers: int, distinct: int, order: str) -> int:
    """Return the number of the stored layer whose weights a layer uses.

    The file stores `distinct` layers, 0 to distinct - 1, each used layers / distinct times. For 6 layers, 3 of them
    stored:

        "sequence"        0 0 1 1 2 2: each several times in a row.
        "cycle"           0 1 2 0 1 2: one round after another.
        "cycle_reversed"  0 1 2 2 1 0: rounds as in "cycle", the last one backwards. A single round is not reversed.

    Args:
        layer: from 0 to layers - 1.
        layers: the number of layers a token passes through.
        distinct: the number of stored layers, a divisor of `layers`. If they are equal, every order returns the layer
            itself.
        order: one of the three.

    Returns:
        A Python int from 0 to distinct - 1.

    Raises:
        ValueError: distinct is below 1 or not a divisor of layers (the message states both); layer is not from 0 to
            layers - 1; or the order is unknown (the message names it).

    Source: Takase and Kiyono 2021.
    """
    raise NotImplementedError("4.6.1 Which layer owns the weights")

"""Which of the stored layers a layer takes its weights from."""

ORDERS = ("sequence", "cycle", "cycle_reversed")


def weight_owner(layer: int, layers: int, distinct: int, order: str) -> int:
    """Say whose weights a layer of a model uses, if its layers share.

    The file stores the weights of `distinct` layers, 0 to distinct - 1, each of which is used layers / distinct times.
    For 6 layers and 3 that are stored:

        "sequence"        0 0 1 1 2 2: each several times at once.
        "cycle"           0 1 2 0 1 2: one round after the other.
        "cycle_reversed"  0 1 2 2 1 0: rounds as in "cycle", the last one backwards. A single round is not reversed.

    Args:
        layer: the layer that is asked about, from 0 to layers - 1.
        layers: how many a token passes through.
        distinct: how many are stored, a divisor of `layers`. With all of them each order gives the layer itself.
        order: one of the three.

    Returns:
        The number of the stored layer, from 0 to distinct - 1, a Python int.

    Raises:
        ValueError: distinct is below 1 or no divisor of layers, and the message says both; layer is not from 0 to
            layers - 1; or there is no such order, which the message names.

    Source: Takase and Kiyono 2021.
    """
    if distinct < 1 or layers % distinct:
        raise ValueError(f"{layers} layers cannot share the weights of {distinct}")
    if not 0 <= layer < layers:
        raise ValueError(f"there is no layer {layer} among {layers}")
    if order == "sequence":
        return layer // (layers // distinct)
    if order not in ORDERS:
        raise ValueError(f"there is no order {order!r}, there are {', '.join(ORDERS)}")
    place = layer % distinct
    last_of_several = layers > distinct and layer >= layers - distinct
    return distinct - 1 - place if order == "cycle_reversed" and last_of_several else place

"""A table at both ends of a model: what it costs to predict with it, and where a step would move it."""

import mlx.core as mx


def loss_and_gradient(table: mx.array, tokens: mx.array, targets: mx.array) -> tuple[mx.array, mx.array]:
    """Predict each token's successor with nothing but a tied table, and differentiate that.

    It is a model without layers: a token's row is looked up, x = table[token], and compared with all rows,
    logits = table @ x.

    Args:
        table: V x E, of any float dtype.
        tokens: L, integers, at least one: those that are read. A token may come several times.
        targets: L, integers: the one that comes after each.

    Returns:
        loss: a single number in float32, the mean over L of -log p, where p is the probability, by a softmax of the
            logits, of the target. Logits of any size give the right number. All is computed in float32.
        gradient: V x E, in the table's dtype: the loss's derivative by each number of the table. The table is used
            twice, and what both uses give is added up; a token that is read twice is moved twice.

    Source: Press and Wolf 2017.
    """
    raise NotImplementedError("4.6.4 A table at both ends")

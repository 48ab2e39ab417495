"""A tied embedding and output head: the loss and its gradient."""

import mlx.core as mx


def loss_and_gradient(table: mx.array, tokens: mx.array, targets: mx.array) -> tuple[mx.array, mx.array]:
    """Return the next-token loss of a model that is only a tied table, and its gradient.

    The model has no layers: x = table[token], logits = table @ x.

    Args:
        table: V x E, of any float dtype.
        tokens: L, integers, at least one: the inputs. A token may occur several times.
        targets: L, integers: the token after each input.

    Returns:
        loss: a float32 scalar, the mean over L of -log p, where p is the target's softmax probability. Logits of any
            magnitude are handled without overflow. Everything is computed in float32.
        gradient: V x E, in the table's dtype: the derivative of the loss with respect to the table. The contributions
            of both uses, lookup and head, are added, and each occurrence of a token contributes.

    Source: Press and Wolf 2017.
    """
    raise NotImplementedError("4.6.4 A tied embedding table")

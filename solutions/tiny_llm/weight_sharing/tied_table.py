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
    wide = table.astype(mx.float32)
    x = wide[tokens]  # L x E
    logits = x @ wide.T  # L x V
    total = mx.logsumexp(logits, axis=-1, keepdims=True)  # L x 1
    right = mx.arange(table.shape[0]) == targets[:, None]  # L x V
    loss = mx.mean(total[:, 0] - mx.sum(mx.where(right, logits, 0), axis=-1))
    error = (mx.exp(logits - total) - right) / tokens.size  # L x V: by how much each score is too high
    as_head = error.T @ x  # V x E
    as_rows = error @ wide  # L x E: the gradient of the rows looked up
    gradient = as_head.at[tokens].add(as_rows)
    return loss, gradient.astype(table.dtype)

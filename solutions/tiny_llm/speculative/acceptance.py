"""Which of the drafted tokens stand, so that the text is distributed as if the target model had written it alone."""

import mlx.core as mx

from .chances import pick


def accept(target: mx.array, draft: mx.array, drafted: list[int], draws: list[float]) -> tuple[int, int]:
    """Judge k drafted tokens, and choose the one that comes behind those that stand.

    Token i stands if all before it do and if its number is below p / q: p is what row i of target gives it, q what row
    i of draft does. The next token is picked with the last number. Where a token was refused, it is picked of what the
    target's row has over the draft's row, max(p - q, 0), made to sum to 1; of the target's row itself, should rounding
    leave nothing of that. Where all stand, it is picked of the target's last row.

    Args:
        target: (k + 1) x V, probabilities of the model that decides: row i after the text and i drafted tokens.
        draft: k x V, the probabilities with which the tokens were drawn: row i gave token i, so that q > 0 there.
        drafted: the k tokens; k may be 0.
        draws: k + 1 numbers from 0 to below 1: one for each drafted token, and the last one for the next token.

    Returns:
        How many of the drafted tokens stand, 0 to k, and the next token.

    Raises:
        ValueError: target has not k + 1 rows, draft not k or another V, or draws are not k + 1; the message names what
            there is and what should be.

    Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.
    """
    count = len(drafted)
    if target.shape[0] != count + 1 or len(draws) != count + 1:
        seen = f"{target.shape[0]} rows of the target and {len(draws)} draws"
        raise ValueError(f"{count} drafted tokens need {count + 1} rows and draws, and there are {seen}")
    if draft.shape != (count, target.shape[1]):
        raise ValueError(f"the draft's probabilities are {draft.shape}, but should be {(count, target.shape[1])}")
    rows, tokens = mx.arange(count), mx.array(drafted, mx.int32)
    p: list[float] = target[rows, tokens].tolist()  # type: ignore[assignment] # k numbers
    q: list[float] = draft[rows, tokens].tolist()  # type: ignore[assignment]
    accepted = 0
    while accepted < count and draws[accepted] * q[accepted] < p[accepted]:
        accepted += 1
    row = target[accepted]  # V
    if accepted < count:
        residual = mx.maximum(row - draft[accepted], 0)
        total = mx.sum(residual)
        row = residual / total if total > 0 else row
    return accepted, pick(row, draws[-1])

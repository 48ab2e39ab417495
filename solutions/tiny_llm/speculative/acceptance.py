"""The acceptance rule: the output is distributed as if the target model had sampled it alone."""

import mlx.core as mx

from .probabilities import sample_from


def accept(target: mx.array, draft: mx.array, draft_tokens: list[int], uniforms: list[float]) -> tuple[int, int]:
    """Accept or reject k draft tokens, and sample the token that follows the accepted ones.

    Token i is accepted if all before it are and if its uniform sample is below p / q: p is its probability in row i of
    target, q that in row i of draft. The next token is sampled, by `sample_from`, with the last uniform sample. If a
    token was rejected, it is sampled from the residual max(p - q, 0) of that row, normalized to sum to 1, or from the
    target's row itself if rounding leaves no residual. If all were accepted, it is sampled from the target's last row.

    Args:
        target: (k + 1) x V, probabilities of the target model: row i follows the sequence and i draft tokens.
        draft: k x V, the probabilities that the draft tokens were sampled from: row i gave token i, so q > 0 there.
        draft_tokens: the k tokens; k may be 0.
        uniforms: k + 1 uniform samples from [0, 1): one for each draft token, and the last one for the next token.

    Returns:
        The number of accepted draft tokens, 0 to k, and the next token.

    Raises:
        ValueError: target has not k + 1 rows, draft not k or another V, or uniforms are not k + 1; the message gives
            the sizes found and expected.

    Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.
    """
    count = len(draft_tokens)
    if target.shape[0] != count + 1 or len(uniforms) != count + 1:
        seen = f"{target.shape[0]} rows of the target and {len(uniforms)} uniform samples"
        raise ValueError(f"{count} draft tokens need {count + 1} rows and samples, and there are {seen}")
    if draft.shape != (count, target.shape[1]):
        raise ValueError(f"the draft's probabilities are {draft.shape}, but should be {(count, target.shape[1])}")
    rows, tokens = mx.arange(count), mx.array(draft_tokens, mx.int32)
    p: list[float] = target[rows, tokens].tolist()  # type: ignore[assignment] # k numbers
    q: list[float] = draft[rows, tokens].tolist()  # type: ignore[assignment]
    accepted = 0
    while accepted < count and uniforms[accepted] * q[accepted] < p[accepted]:
        accepted += 1
    row = target[accepted]  # V
    if accepted < count:
        residual = mx.maximum(row - draft[accepted], 0)
        total = mx.sum(residual)
        row = residual / total if total > 0 else row
    return accepted, sample_from(row, uniforms[-1])

"""The acceptance rule: the output is distributed as if the target model had sampled it alone."""

import mlx.core as mx


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
    raise NotImplementedError("3.6.1 The acceptance rule")

"""What the probes of day 4 share: outcomes as arrays of bytes."""

import mlx.core as mx


def told(call):
    """Return what a call returns, or the kind of its error, as an array."""
    try:
        result = f"{call()!a}"
    except ValueError:
        result = "ValueError"
    except OSError:
        result = "OSError"
    except LookupError:
        result = "LookupError"
    return mx.array([*result.encode()])

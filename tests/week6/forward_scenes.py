"""Scenes for `forward`, and what must happen in each: what replicas and clients get, the reports, and what is left."""

from tests.week6.forwarding import THREE, TWO, Scene, alone

FOUR = f"{TWO}, {TWO}"
TOGETHER: Scene = (TWO, ["ab", "ab"], None, [(0.0, "A", {}), (0.0, "B", {})])
SHARED: Scene = (TWO, ["ab", "ab"], None, [(0.0, "A", {"blocks": 6}), (0.0, "B", {"blocks": 6}), (0.0, "C", {})])
CANCELLED: Scene = (TWO, ["a~", "~"], None, [(0.0, "A", {}), (0.0, "B", {}), (3.5, "cancel", {"number": 0})])
CANCELLED[3].append((4.5, "cancel", {"number": 1}))
SCENES: dict[str, tuple[Scene, str]] = {
    "an answer": (
        alone(TWO, "ab cd"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: A reads Aa
        2 s: A reads Ab
        2 s: A answered, busy 0 0
        2 s: r0 answered, 1 running
        busy 0 0
        """,
    ),
    "an answer without events": (
        alone(TWO, "/ cd"),
        """
        0 s: r0 gets A, busy 1 0
        0 s: A answered, busy 0 0
        0 s: r0 answered, 1 running
        busy 0 0
        """,
    ),
    "two requests at once": (
        TOGETHER,
        """
        0 s: r0 gets A, busy 1 0
        0 s: r1 gets B, busy 1 1
        1 s: A reads Aa
        1 s: B reads Ba
        2 s: A reads Ab
        2 s: A answered, busy 0 1
        2 s: B reads Bb
        2 s: B answered, busy 0 0
        2 s: r0 answered, 1 running
        2 s: r1 answered, 1 running
        busy 0 0
        """,
    ),
    "two requests with one prefix at once": (
        SHARED,
        """
        0 s: r0 gets A, busy 1 0, 6 seen
        0 s: r0 gets B, busy 2 0, 6 seen
        0 s: r1 gets C, busy 2 1
        1 s: A reads Aa
        1 s: B reads Ba
        1 s: C reads Ca
        2 s: A reads Ab
        2 s: A answered, busy 1 1
        2 s: B reads Bb
        2 s: B answered, busy 0 1
        2 s: C reads Cb
        2 s: C answered, busy 0 0
        2 s: r0 answered, 2 running
        2 s: r0 answered, 1 running
        2 s: r1 answered, 1 running
        busy 0 0
        """,
    ),
    "a failure before the first event": (
        alone(TWO, "! cd"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: r1 gets A, busy 0 1
        2 s: A reads Ac
        3 s: A reads Ad
        3 s: A answered, busy 0 0
        1 s: r0 failed, 1 running
        3 s: r1 answered, 1 running
        busy 0 0
        """,
    ),
    "a failure in the middle of the answer": (
        alone(TWO, "ab! cd"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: A reads Aa
        2 s: A reads Ab
        3 s: A reads Failure 502 that names r0, busy 0 0
        3 s: A failed, busy 0 0
        3 s: r0 failed, 1 running
        busy 0 0
        """,
    ),
    "a rejection in the middle of the answer": (
        alone(TWO, "ab7 cd"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: A reads Aa
        2 s: A reads Ab
        3 s: A reads Failure 502 that names r0, busy 0 0
        3 s: A failed, busy 0 0
        3 s: r0 rejected, 1 running
        busy 0 0
        """,
    ),
    "a failure of each replica": (
        alone(TWO, "! !"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: r1 gets A, busy 0 1
        2 s: A reads Failure 503, retry after 1 s, busy 0 0
        2 s: A failed, busy 0 0
        1 s: r0 failed, 1 running
        2 s: r1 failed, 1 running
        busy 0 0
        """,
    ),
    "two attempts": (
        alone(FOUR, "! ! ! ab", attempts=2),
        """
        0 s: r0 gets A, busy 1 0 0 0
        1 s: r1 gets A, busy 0 1 0 0
        2 s: A reads Failure 503, retry after 1 s, busy 0 0 0 0
        2 s: A failed, busy 0 0 0 0
        1 s: r0 failed, 1 running
        2 s: r1 failed, 1 running
        busy 0 0 0 0
        """,
    ),
    "a prefix on the failed replica": (
        alone("ready 2/16 *, ready 0/16 +9, ready 1/16 *", "ab !/! ab", blocks=6),
        """
        0 s: r1 gets A, busy 2 1 1, 1 open, 9 seen
        1 s: r2 gets A, busy 2 0 2, 1 open, 6 seen
        2 s: A reads Aa
        3 s: A reads Ab
        3 s: A answered, busy 2 0 1, 0 open
        1 s: r1 failed, 1 running
        3 s: r2 answered, 2 running
        busy 2 0 1, 0 open
        """,
    ),
    "a rejection": (
        alone(TWO, "7 cd"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: r1 gets A, busy 0 1
        2 s: A reads Ac
        3 s: A reads Ad
        3 s: A answered, busy 0 0
        1 s: r0 rejected, 1 running
        3 s: r1 answered, 1 running
        busy 0 0
        """,
    ),
    "a rejection by each replica": (
        alone(TWO, "7 3"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: r1 gets A, busy 0 1
        2 s: A reads Failure 429, retry after 3 s, busy 0 0
        2 s: A failed, busy 0 0
        1 s: r0 rejected, 1 running
        2 s: r1 rejected, 1 running
        busy 0 0
        """,
    ),
    "a rejection by each of three": (
        alone(THREE, "7 3 5"),
        """
        0 s: r0 gets A, busy 1 0 0
        1 s: r1 gets A, busy 0 1 0
        2 s: r2 gets A, busy 0 0 1
        3 s: A reads Failure 429, retry after 3 s, busy 0 0 0
        3 s: A failed, busy 0 0 0
        1 s: r0 rejected, 1 running
        2 s: r1 rejected, 1 running
        3 s: r2 rejected, 1 running
        busy 0 0 0
        """,
    ),
    "rejections for a moment": (
        alone(TWO, "3 0"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: r1 gets A, busy 0 1
        2 s: A reads Failure 429, retry after 0 s, busy 0 0
        2 s: A failed, busy 0 0
        1 s: r0 rejected, 1 running
        2 s: r1 rejected, 1 running
        busy 0 0
        """,
    ),
    "a rejection and a failure": (
        alone(TWO, "7 !"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: r1 gets A, busy 0 1
        2 s: A reads Failure 429, retry after 7 s, busy 0 0
        2 s: A failed, busy 0 0
        1 s: r0 rejected, 1 running
        2 s: r1 failed, 1 running
        busy 0 0
        """,
    ),
    "no replica ready": (
        alone("starting 0/16 *, dead 0/16 *", "ab cd"),
        """
        0 s: A reads Failure 503, retry after 1 s, busy 0 0
        0 s: A failed, busy 0 0
        busy 0 0
        """,
    ),
    "all replicas at their limit": (
        alone("ready 2/2 *, dead 0/16 *", "ab cd"),
        """
        0 s: A reads Failure 429, retry after 1 s, busy 2 0, 0 open
        0 s: A failed, busy 2 0, 0 open
        busy 2 0, 0 open
        """,
    ),
    "a failure, and the other replica at its limit": (
        alone("ready 0/2 *, ready 2/2 *", "! cd"),
        """
        0 s: r0 gets A, busy 1 2, 1 open
        1 s: A reads Failure 503, retry after 1 s, busy 0 2, 0 open
        1 s: A failed, busy 0 2, 0 open
        1 s: r0 failed, 1 running
        busy 0 2, 0 open
        """,
    ),
    "a client that leaves": (
        alone(TWO, "abc cd", leaves=2),
        """
        0 s: r0 gets A, busy 1 0
        1 s: A reads Aa
        2 s: A reads Ab
        2 s: A left, busy 0 0
        busy 0 0
        """,
    ),
    "clients that are cancelled": (
        CANCELLED,
        """
        0 s: r0 gets A, busy 1 0
        0 s: r1 gets B, busy 1 1
        1 s: A reads Aa
        3.5 s: A cancelled, busy 0 1
        4.5 s: B cancelled, busy 0 0
        busy 0 0
        """,
    ),
    "a slow client": (
        alone(TWO, "ab! cd", pause=5.0),
        """
        0 s: r0 gets A, busy 1 0
        1 s: A reads Aa
        7 s: A reads Ab
        13 s: A reads Failure 502 that names r0, busy 0 0
        18 s: A failed, busy 0 0
        13 s: r0 failed, 1 running
        busy 0 0
        """,
    ),
    "another error of send": (
        alone(TWO, "a? cd"),
        """
        0 s: r0 gets A, busy 1 0
        1 s: A reads Aa
        2 s: A raised KeyError, busy 0 0
        busy 0 0
        """,
    ),
}


def expected_of(name: str) -> list[str]:
    """Return the lines of a scene."""
    return [line.strip() for line in SCENES[name][1].strip().splitlines()]

"""Numbers within bounds, as expressions over their digits."""

from .expression import Choice, Expression, Repeat, Sequence, chars, literal, optional

DIGIT, DIGITS = chars("09"), Repeat(chars("09"), 1)
NATURAL = Choice((literal("0"), Sequence((chars("19"), Repeat(DIGIT)))))
INTEGER = Sequence((optional(literal("-")), NATURAL))
EXPONENT = Sequence((chars("e", "E"), optional(chars("+", "-")), DIGITS))
NUMBER = Sequence((INTEGER, optional(Sequence((literal("."), DIGITS))), optional(EXPONENT)))


def integers(low: int | None, high: int | None) -> Expression:
    """Return the expression of the integers from low to high, in decimal, without leading zeros and without "-0".

    Args:
        low, high: None for no bound. Without both, "-0" is an integer, too, as in JSON.

    Raises:
        ValueError: low > high.
    """
    if low is None and high is None:
        return INTEGER
    if low is not None and high is not None and low > high:
        raise ValueError(f"no integer is at least {low} and at most {high}")
    options: list[Expression] = []
    if low is None or low < 0:
        least = 1 if high is None or high >= 0 else -high
        options.append(Sequence((literal("-"), naturals(least, None if low is None else -low))))
    if high is None or high >= 0:
        options.append(naturals(max(low or 0, 0), high))
    return Choice(tuple(options))


def naturals(low: int, high: int | None) -> Expression:
    """Return the expression of the integers from low, at least 0, to high; None for no upper bound."""
    if high is None:
        digits = len(str(low))
        longer = Sequence((chars("19"), Repeat(DIGIT, digits)))  # one digit more, or several
        return Choice((naturals(low, 10**digits - 1), longer))
    options, start = [], low
    while start <= high:  # numbers of equal length
        end = min(high, 10 ** len(str(start)) - 1)
        options.append(_digits(str(start), str(end)))
        start = end + 1
    return Choice(tuple(options))


def _digits(low: str, high: str) -> Expression:
    """Return the digit strings from low to high, which are of equal length."""
    if not low:
        return Sequence(())
    if low[0] == high[0]:
        return Sequence((literal(low[0]), _digits(low[1:], high[1:])))
    rest = len(low) - 1
    first, last = int(low[0]) + (int(low[1:] or 0) > 0), int(high[0]) - (int(high[1:] or 0) < 10**rest - 1)
    options: list[Expression] = []
    if first > int(low[0]):
        options.append(Sequence((literal(low[0]), _digits(low[1:], "9" * rest))))
    if first <= last:
        options.append(Sequence((chars(f"{first}{last}"), Repeat(DIGIT, rest, rest))))
    if last < int(high[0]):
        options.append(Sequence((literal(high[0]), _digits("0" * rest, high[1:]))))
    return Choice(tuple(options))


def decimals(low: int | None, high: int | None) -> Expression:
    """Return the expression of the decimal numbers from low to high, both integers, without exponents.

    Without both bounds, exponents are allowed.
    """
    if low is None and high is None:
        return NUMBER
    if low is not None and high is not None and low > high:
        raise ValueError(f"no number is at least {low} and at most {high}")
    options: list[Expression] = []
    if low is None or low < 0:
        least = 0 if high is None or high >= 0 else -high
        options.append(Sequence((literal("-"), _magnitudes(least, None if low is None else -low))))
    if high is None or high >= 0:
        options.append(_magnitudes(max(low or 0, 0), high))
    return Choice(tuple(options))


def _magnitudes(low: int, high: int | None) -> Expression:
    fraction, zeros = (optional(Sequence((literal("."), Repeat(part, 1)))) for part in (DIGIT, literal("0")))
    if high is None:
        return Sequence((naturals(low, None), fraction))
    if low == high:  # one value, of many spellings: the shortest
        return naturals(low, high)
    return Choice((Sequence((naturals(low, high - 1), fraction)), Sequence((naturals(high, high), zeros))))

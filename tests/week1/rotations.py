"""Inputs for the checks of day 2."""

from hypothesis import strategies as st

# "That is a blue dog", position by position: the pairs of D = 4 features with base 100 have the frequencies 1 and 1/10.
FIVE_TOKENS = 'float32, dims 4, base 100, the five tokens "That is a blue dog"'
sizes = {"dims": st.integers(1, 8).map(lambda pairs: 2 * pairs), "base": st.integers(2, 2000)}

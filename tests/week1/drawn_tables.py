"""Random tokenizer tables, for cases that a learned table does not contain."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tables:
    """The tables of a `ByteLevelBPE`, in characters of the byte alphabet, and the bytes of each id."""

    vocab: dict[str, int]
    merges: list[tuple[str, str]]
    specials: dict[str, int]
    bytes_of: dict[int, bytes]

    @property
    def ranks(self) -> dict[tuple[str, str], int]:
        """The rank of each pair among the merges."""
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @property
    def arguments(self) -> dict[str, Any]:
        """The constructor arguments of a `ByteLevelBPE`."""
        given = {"vocab": self.vocab, "merges": self.merges, "special_tokens": self.specials}
        return given | {"normalization": "NFC"}


def drawn_pairs(seed: int, letters: str, number: int) -> list[tuple[str, str]]:
    """Return pairs in a learnable order, the shorter first; many of them spell the same token."""
    generator = np.random.default_rng(seed)
    made, pairs = list(letters), []
    for length in range(2, 6):
        possible = [(a, b) for a, b in itertools.product(made, made) if len(a + b) == length]
        chosen = generator.permutation(len(possible))[: number // 4]
        pairs += [possible[i] for i in chosen]
        made += sorted({a + b for a, b in pairs} - {*made})
    return pairs


def drawn_tables(seed: int, alphabet: dict[int, str], specials: list[str]) -> Tables:
    """Return tables with pairs of "abc ", of the two bytes of e-acute and of CR LF; ids are shuffled and have gaps.

    Id 0 belongs to the last special token if the seed is even, and else to CR LF.
    """
    generator = np.random.default_rng(seed)
    merges = [
        *drawn_pairs(seed, "abc" + alphabet[32], 40),
        (alphabet[0xC3], alphabet[0xA9]),
        (alphabet[13], alphabet[10]),
    ]
    tokens = list(dict.fromkeys([*alphabet.values(), *(a + b for a, b in merges)]))
    ids = generator.permutation(2 * (len(tokens) + len(specials))).tolist()
    first, zero = len(tokens) - 1 if seed % 2 else len(tokens) + len(specials) - 1, ids.index(0)
    ids[first], ids[zero] = ids[zero], ids[first]
    vocab = dict(zip(tokens, ids, strict=False))
    numbered = dict(zip(specials, ids[len(tokens) :], strict=False))
    byte_of = {letter: byte for byte, letter in alphabet.items()}
    bytes_of = {number: bytes(byte_of[letter] for letter in token) for token, number in vocab.items()}
    return Tables(vocab, merges, numbered, bytes_of | {number: token.encode() for token, number in numbered.items()})

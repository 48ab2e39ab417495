"""The vocabulary as a trie of bytes, and sets of tokens as bits."""

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
ROOT = 0


class TokenTrie:
    """A trie of all tokens' bytes, N nodes in order of depth, the root being node 0; children of a node are adjacent.

    byte: N, the byte that leads to a node; 0 for the root.
    first_child: N + 1; the children of node n are first_child[n] to first_child[n + 1] - 1.
    first_token: N + 1; the tokens that end in node n are tokens[first_token[n] : first_token[n + 1]].
    tokens: token ids, each once.
    size: V, the number of logits.
    bytes_of: the bytes of each token in the trie.
    """

    def __init__(self, token_bytes: Mapping[int, bytes], size: int, excluded: Collection[int] = ()) -> None:
        """Build the trie.

        Args:
            token_bytes: each token's bytes. Tokens without bytes are left out: they would never end a text.
            size: V; all ids are less. It may be larger than the vocabulary.
            excluded: tokens to leave out, such as special ones, whose bytes are a name and no text.
        """
        words = sorted((text, token) for token, text in token_bytes.items() if text and token not in excluded)
        self.size, self.bytes_of = size, {token: text for text, token in words}
        byte, parents, ends = [0], [-1], list[tuple[int, int]]()  # ends: node and token
        level = [(ROOT, 0, len(words))]  # a node, and the range of words that begin with its bytes
        depth = 0
        while level:
            below = []
            for node, first, last in level:
                while first < last and len(words[first][0]) == depth:
                    ends.append((node, words[first][1]))
                    first += 1
                while first < last:
                    letter, until = words[first][0][depth], first + 1
                    while until < last and words[until][0][depth] == letter:
                        until += 1
                    below.append((len(byte), first, until))
                    byte.append(letter)
                    parents.append(node)
                    first = until
            level, depth = below, depth + 1
        count = len(byte)
        self.byte = np.array(byte, np.uint8)
        self.first_child: Ints = np.searchsorted(np.array(parents), np.arange(count + 1)).astype(np.int32)
        nodes = np.array([node for node, _ in ends], np.int32)
        self.tokens: Ints = np.array([token for _, token in ends], np.int32)
        self.first_token: Ints = np.searchsorted(nodes, np.arange(count + 1)).astype(np.int32)


def ranges(first: Ints, last: Ints) -> Ints:
    """Return the numbers first[i] to last[i] - 1 of all i, one after another: [2, 7] and [4, 8] give 2, 3, 7."""
    lengths = last - first
    before = np.cumsum(lengths, dtype=np.int32) - lengths
    numbers: Ints = np.arange(int(lengths.sum()), dtype=np.int32) + np.repeat(first - before, lengths)
    return numbers  # int32 throughout: in int64, a walk takes twice as long


def unpack(mask: npt.NDArray[np.uint32], size: int) -> npt.NDArray[np.bool_]:
    """Return masks, ... x ceil(size / 32) words, as ... x size booleans: token t is bit t % 32 of word t // 32."""
    return np.unpackbits(mask.view(np.uint8), axis=-1, count=size, bitorder="little").view(np.bool_)

"""A loader of training batches that resumes exactly: its whole position is a few numbers."""

from collections.abc import Sequence
from pathlib import Path

from .packing import Rows, pack_documents

State = dict[str, int]


class ShardedLoader:
    """An endless iterator over batches of packed rows from several shards. `epoch` is that of the next row."""

    def __init__(self, shards: Sequence[Path], batch_size: int, length: int, eos: int, seed: int = 0) -> None:
        """Start at the first row of epoch 0. A shard is read when its first row is needed.

        Args:
            shards: files as `write_shard` makes them, each with at least one document.
            batch_size: B, the rows of a batch.
            length: L.
            eos: the end-of-document token.
            seed: of the order.

        Raises:
            ValueError: there is no shard, or batch_size is less than 1. The message states both numbers.
        """
        raise NotImplementedError("5.2.3 A loader that resumes")

    def __iter__(self) -> "ShardedLoader":
        """Return the loader itself."""
        raise NotImplementedError("5.2.3 A loader that resumes")

    def __next__(self) -> Rows:
        """Return the next B rows.

        An epoch visits every shard once, in the order `shuffled(number of shards, seed, epoch)`. `read_shard` returns a
        shard's documents, and its rows are those of `pack_documents` for the documents in the order `shuffled(number of
        documents, seed, epoch, shard)`, where `shard` is the index in `shards`. So an epoch has each document once.
        After the last row of a shard comes the first row of the next shard; after the last shard of an epoch comes the
        next epoch. A batch may span shards and epochs, and always has B rows.

        Returns:
            B x L each.

        Raises:
            ValueError: a shard does not end with eos. The message names the file.
        """
        raise NotImplementedError("5.2.3 A loader that resumes")

    def state(self) -> State:
        """Return where the next batch starts.

        Returns:
            A new dict of integers, which JSON can store: "seed", "length", "shards" (their number), "epoch", "shard"
            (the place in the epoch's order of shards) and "row" (the first row of the next batch in that shard). It
            names a row that exists, never the end of a shard.
        """
        raise NotImplementedError("5.2.3 A loader that resumes")

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken: the next rows are those of an uninterrupted run.

        The batch size may differ from that of the run that was interrupted. `state` is not changed.

        Raises:
            ValueError: the seed, the length or the number of shards is not this loader's. The message states the name
                and both values. The loader then continues as if nothing had been loaded.
        """
        raise NotImplementedError("5.2.3 A loader that resumes")

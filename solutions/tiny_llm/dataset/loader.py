"""A loader of training batches that resumes exactly: its whole position is a few numbers."""

from collections.abc import Sequence
from pathlib import Path

from .order import shuffled
from .packing import Rows, pack_documents
from .shards import read_shard

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
        if not shards or batch_size < 1:
            raise ValueError(f"a loader needs a shard and a batch_size of 1, but has {len(shards)} and {batch_size}")
        self.shards, self.batch_size, self.length, self.eos, self.seed = list(shards), batch_size, length, eos, seed
        self.epoch = self._place = self._row = 0  # the next row: epoch, place in the epoch's order, row of that shard
        self._packed: tuple[tuple[int, int], Rows] | None = None  # the rows of (epoch, place)

    def __iter__(self) -> "ShardedLoader":
        """Return the loader itself."""
        return self

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
        parts: list[Rows] = []
        missing = self.batch_size
        while missing:
            rows = self._rows()
            part = rows[self._row : self._row + missing]
            parts.append(part)
            missing -= len(part)
            self._row += len(part)
            if self._row >= len(rows):
                self._advance()
        return Rows.concatenate(parts)

    def state(self) -> State:
        """Return where the next batch starts.

        Returns:
            A new dict of integers, which JSON can store: "seed", "length", "shards" (their number), "epoch", "shard"
            (the place in the epoch's order of shards) and "row" (the first row of the next batch in that shard). It
            names a row that exists, never the end of a shard.
        """
        return {
            "seed": self.seed,
            "length": self.length,
            "shards": len(self.shards),
            "epoch": self.epoch,
            "shard": self._place,
            "row": self._row,
        }

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken: the next rows are those of an uninterrupted run.

        The batch size may differ from that of the run that was interrupted. `state` is not changed.

        Raises:
            ValueError: the seed, the length or the number of shards is not this loader's. The message states the name
                and both values. The loader then continues as if nothing had been loaded.
        """
        mine = self.state()
        for name in ("seed", "length", "shards"):
            if state[name] != mine[name]:
                raise ValueError(f"the state has {name} {state[name]}, but this loader has {mine[name]}")
        self.epoch, self._place, self._row = state["epoch"], state["shard"], state["row"]

    def _rows(self) -> Rows:
        """Return the rows of the current shard, packed once."""
        at = (self.epoch, self._place)
        if self._packed is None or self._packed[0] != at:
            shard = shuffled(len(self.shards), self.seed, self.epoch)[self._place]
            documents = read_shard(self.shards[shard], self.eos)
            order = shuffled(len(documents), self.seed, self.epoch, shard)
            self._packed = at, pack_documents([documents[i] for i in order], self.length, self.eos)
        return self._packed[1]

    def _advance(self) -> None:
        """Move to the first row of the next shard, or of the next epoch."""
        self._row = 0
        self._place += 1
        if self._place == len(self.shards):
            self._place = 0
            self.epoch += 1

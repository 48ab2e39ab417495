"""Known programs of task 5.2.3, the loader."""

import json

import mlx.core as mx
from tests.week5.packed import EOS, shard_paths, table
from tiny_llm_solution.dataset.order import shuffled
from tiny_llm_solution.dataset.packing import Rows, pack_documents
from tiny_llm_solution.dataset.shards import read_shard

from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.2.3")

COUNTS = (5, 1, 8)


def make(program, counts=COUNTS, batch=2, length=4, seed=3):
    return program(shard_paths(*counts), batch, length, EOS, seed)


def run(loader, count):
    return mx.stack([table(next(loader)) for _ in range(count)])


def resumed(program, steps, counts=COUNTS, batch=2, length=4, more=3, other_batch=0):
    """Continue from the state after so many steps, in a new loader."""
    first, second = (make(program, counts, size, length) for size in (batch, other_batch or batch))
    run(first, steps)
    second.load_state(json.loads(json.dumps(first.state())))
    return run(second, more)


def rewound(program, late, early, counts=COUNTS, batch=2):
    """Continue from an early state in a loader that has run on."""
    loader = make(program, counts, batch)
    for _ in range(early):
        next(loader)
    state = dict(loader.state())
    run(loader, late - early)
    loader.load_state(state)
    return run(loader, 3)


def refused(program):
    """Load the state of another run, and go on."""
    loader = make(program)
    run(loader, 2)
    state = {**make(program).state(), "epoch": 1, "shard": 1, "row": 1, "shards": 2}
    return mx.array(refusal(lambda: loader.load_state(state))), run(loader, 2)


def states(program):
    """Return the three numbers of the position along two epochs."""
    loader, found = make(program, batch=1), []
    for _ in range(20):
        state = loader.state()
        found.append([state[name] for name in ("epoch", "shard", "row")])
        next(loader)
    return mx.array(found)


def epochs(program):
    """Return `epoch` after each batch, read before anything else is called."""
    loader, found = make(program, batch=1), []
    for _ in range(20):
        next(loader)
        found.append(loader.epoch)
    return mx.array(found)


def kept(program):
    """Return a state that was taken before the loader ran on."""
    loader = make(program)
    run(loader, 2)
    state = loader.state()
    run(loader, 3)
    return mx.array([state[name] for name in ("epoch", "shard", "row")])


def read_early(program):
    """Return 1 if the constructor needs its files."""
    return mx.array(refusal(lambda: program([path.with_name("none.npy") for path in shard_paths(*COUNTS)], 2, 4, EOS, 3)
                            and mx.zeros(1), FileNotFoundError))  # fmt: skip


def read_ahead(program):
    """Return 1 if the first row needs the file of the second shard, too."""
    paths = list(shard_paths(*COUNTS))
    for shard in shuffled(3, 3, 0)[1:]:
        paths[shard] = paths[shard].with_name("none.npy")
    return mx.array(refusal(lambda: next(program(paths, 1, 2, EOS, 3)) and mx.zeros(1), FileNotFoundError))


def loads(program, **changes):
    """Return whether the state of a run with another setting is refused."""
    other = make(program, **changes).state()
    return mx.array(refusal(lambda: make(program).load_state(other)))


known.probe_table(
    two_epochs=lambda program: run(make(program), 12),
    rows_one_by_one=lambda program: run(make(program, batch=1), 24),
    large_batches=lambda program: run(make(program, batch=30), 2),
    one_shard=lambda program: run(make(program, (9,), 1, 3), 22),
    small_shards=lambda program: run(make(program, (1, 1, 1), 1, 8, 0), 9),
    other_seed=lambda program: run(make(program, seed=4), 4),
    in_the_first_shard=lambda program: resumed(program, 1),
    in_the_last_shard=lambda program: resumed(program, 4),
    in_the_next_epoch=lambda program: resumed(program, 8),
    one_shard_resumed=lambda program: resumed(program, 12, (9,), 1, 3),
    batch_of_one=lambda program: resumed(program, 5, batch=1),
    batch_of_three=lambda program: resumed(program, 3, batch=3),
    # to row 0: a shard in the wrong order may have no other row
    rewound=lambda program: rewound(program, 11, 0),
    rewound_to_another_shard=lambda program: rewound(program, 6, 0, batch=1),
    larger_batches=lambda program: resumed(program, 3, more=2, other_batch=3),
    rewound_a_little=lambda program: rewound(program, 2, 1, batch=1),
    rewound_an_epoch=lambda program: rewound(program, 14, 2, (9,), 1),
    refused=refused,
    states=states,
    epochs=epochs,
    kept=kept,
    read_early=read_early,
    read_ahead=read_ahead,
    other_run=lambda program: (loads(program, seed=4), loads(program, length=5), loads(program, counts=(5, 1))),
    iterates=lambda program: table(next(iter(_advanced(make(program))))),
)


def _advanced(loader):
    next(loader)
    return loader


@known.sized("2 shards of 200 documents, batches of 8 x 64, two epochs")
def sized(program):
    paths = shard_paths(200, 200, length=40)
    return lambda: [next(loader).tokens for loader in [program(paths, 8, 64, EOS, 3)] for _ in range(30)]


SHARDS = "shuffled(len(self.shards), self.seed, self.epoch)[self._place]"
ADVANCE = "if self._row >= len(rows):\n    self._advance()"
LATE = "if self._row and self._row >= len(self._rows()):\n    self._advance()"
DOCUMENTS = "shuffled(len(documents), self.seed, self.epoch, shard)"
LOADS = 'self.epoch, self._place, self._row = state["epoch"], state["shard"], state["row"]'
known.change(
    "shards-in-the-given-order",
    (SHARDS, "self._place"),
    fact="the shards are not shuffled",
    question="Which shard does each epoch start with?",
)
known.change(
    "documents-not-shuffled",
    ("[documents[i] for i in order]", "documents"),
    fact="the documents of a shard stay in the order of the file",
    question="In what order were the documents written to the file? And in what order should an epoch read them?",
)
known.change(
    "same-documents-order-in-each-epoch",
    (DOCUMENTS, "shuffled(len(documents), self.seed, shard)"),
    fact="the documents of a shard are in the same order in every epoch",
    question="What distinguishes the order of epoch 1 from that of epoch 0?",
)
known.change(
    "same-shard-order-in-each-epoch",
    (SHARDS, "shuffled(len(self.shards), self.seed)[self._place]"),
    fact="the shards are in the same order in every epoch",
    question="What distinguishes the order of epoch 1 from that of epoch 0?",
)
known.change(
    "documents-keyed-by-the-place",
    (DOCUMENTS, "shuffled(len(documents), self.seed, self.epoch, self._place)"),
    fact="the documents are ordered by the shard's place in the epoch instead of its index in `shards`",
    question="Shard 2 is the first shard of an epoch. What is the third key of the order of its documents?",
)
known.change(
    "epoch-of-the-last-row",
    (ADVANCE, "pass"),
    ("rows = self._rows()", f"{LATE}\nrows = self._rows()"),
    ("return {", f"{LATE}\nreturn {{"),
    fact="`epoch` is that of the last row returned, until state or next is called",
    question="The last row of epoch 0 has been returned. Which epoch is the next row in?",
)
known.change(
    "never-the-next-shard",
    ("self._place += 1\n", "self._place += 0\n"),
    fact="after its last row, a shard starts again: no other shard is ever read",
    question="What changes after the last row of the first shard?",
)
known.change(
    "partial-batch-dropped",
    (
        "part = rows[self._row : self._row + missing]",
        "if not parts and 0 < len(rows) - self._row < self.batch_size <= len(rows):\n"
        "    self._advance()\n"
        "    rows = self._rows()\n"
        "part = rows[self._row : self._row + missing]",
    ),
    fact="the last rows of a shard are dropped if they do not fill a batch",
    question="A shard has 7 rows, and a batch 2. When is the seventh row used?",
)
known.change(
    "short-batches",
    ("missing -= len(part)", "missing = 0"),
    fact="a batch ends at the end of a shard, with fewer than B rows",
    question="A shard has 7 rows, and a batch 2. How many rows does the fourth batch have, and where are they from?",
)
known.change(
    "end-of-the-shard",
    (ADVANCE, "pass"),
    (
        "rows = self._rows()",
        "rows = self._rows()\nif self._row >= len(rows):\n    self._advance()\n    rows = self._rows()",
    ),
    fact="the state names a row past the end of a shard, once its last row has been returned",
    question="A shard has 7 rows, and all have been returned. Does its row 7 exist?",
)
known.change(
    "end-of-the-epoch",
    (
        "if self._place == len(self.shards):\n    self._place = 0\n    self.epoch += 1",
        "pass",
    ),
    (
        "rows = self._rows()",
        "if self._place == len(self.shards):\n    self._place = 0\n    self.epoch += 1\nrows = self._rows()",
    ),
    fact="the state names a place past the last shard, still in the old epoch, once an epoch is complete",
    question="An epoch has the places 0, 1 and 2. Which place and which epoch is the row after the last one in?",
)
known.change(
    "state-counts-batches",
    ('"row": self._row,', '"row": self._row // self.batch_size,'),
    (LOADS, 'self.epoch, self._place, self._row = state["epoch"], state["shard"], state["row"] * self.batch_size'),
    fact="the state counts batches of the shard instead of rows",
    question="A batch of 4 rows takes the last row of a shard and 3 of the next one. Which row is next?",
)
known.change(
    "state-names-the-index",
    ('"shard": self._place,', f'"shard": {SHARDS},'),
    (
        LOADS,
        'self.epoch, self._row = state["epoch"], state["row"]\n'
        'self._place = shuffled(len(self.shards), self.seed, self.epoch).index(state["shard"])',
    ),
    fact="the state's \"shard\" is the index in `shards` instead of the place in the epoch's order",
    question="An epoch reads shard 2 first. What is its place, and which of the two does the state have?",
)
known.change(
    "rows-kept-by-load-state",
    ("if self._packed is None or self._packed[0] != at:", "if self._packed is None:"),
    ("self._row = 0\n", "self._row, self._packed = 0, None\n"),
    fact="load_state keeps the rows that are in memory, although they are those of another shard or epoch",
    question="The loader has packed a shard, and then loads a state. Which rows does it return next?",
)
known.change(
    "resumes-at-the-start-of-the-shard",
    (LOADS, f"{LOADS}\nself._row = 0"),
    fact="a resumed loader starts at the first row of the shard",
    question="A run is stopped in the middle of a shard. Which rows does the resumed run see twice?",
)
known.change(
    "resumes-in-the-first-shard",
    (LOADS, 'self.epoch, self._place, self._row = state["epoch"], 0, state["row"]'),
    fact="a resumed loader starts in the first shard of the epoch",
    question="The state names a shard. Where do you use it?",
)
known.change(
    "resumes-in-epoch-zero",
    (LOADS, 'self.epoch, self._place, self._row = 0, state["shard"], state["row"]'),
    fact="a resumed loader starts in epoch 0",
    question="A run is stopped in epoch 3. In which order are the shards after it is resumed?",
)
known.change(
    "stale-rows-after-loading",
    (
        "if self._packed is None or self._packed[0] != at:",
        "if self._packed is None or not (self._row or self._place or self.epoch):",
    ),
    fact="the rows of the first shard are kept forever",
    question="When do you read the next file?",
)
known.change(
    "changed-before-the-check",
    ("mine = self.state()", f"mine = self.state()\n{LOADS}"),
    fact="load_state changes the position before it checks the state",
    question="load_state raises. Where does the loader continue?",
)
known.change(
    "state-not-checked",
    ("if state[name] != mine[name]:", "if state[name] != mine[name] and False:"),
    fact="load_state accepts the state of a run with another seed, length or number of shards",
    question="Row 7 of rows of 512 tokens: where is it if a row has 256?",
)
known.change(
    "cached-by-place",
    ("at = (self.epoch, self._place)", "at = self._place"),
    fact="packed rows are used again for the same place of another epoch",
    question="There is one shard. Which rows does its second epoch have?",
)
known.change(
    "cached-by-epoch",
    ("at = (self.epoch, self._place)", "at = self.epoch"),
    fact="packed rows are used again for the other shards of the epoch",
    question="When are the rows of your cache those of another shard?",
)
known.change(
    "cached-by-shard",
    ("at = (self.epoch, self._place)", f"at = {SHARDS}"),
    fact="packed rows are used again if the next epoch begins with the same shard",
    question="An epoch ends with shard 1, and the next one begins with it. Are its rows the same?",
)
known.change(
    "all-shards-at-once",
    ("self._packed: tuple[", "self._all = None\nself._packed: tuple["),
    (
        "documents = read_shard(self.shards[shard], self.eos)",
        "self._all = self._all or [read_shard(path, self.eos) for path in self.shards]\ndocuments = self._all[shard]",
    ),
    fact="all shards are read for the first row",
    question="A corpus has a thousand shards. How many of them must be in memory for the first batch?",
)
known.change(
    "packed-once",
    (
        "self._packed: tuple[tuple[int, int], Rows] | None = None  # the rows of (epoch, place)",
        "self._packed = {}",
    ),
    ("at = (self.epoch, self._place)", f"at = {SHARDS}"),
    ("if self._packed is None or self._packed[0] != at:", "if at not in self._packed:"),
    ("self._packed = at, pack_documents(", "self._packed[at] = pack_documents("),
    ("return self._packed[1]", "return self._packed[at]"),
    fact="a shard is packed once, so its documents keep the order of the epoch in which it was first read",
    question="What does the order of a shard's documents depend on, besides the shard?",
)
known.change(
    "shard-order-not-loaded",
    ("self._packed: tuple[", "self._order = shuffled(len(shards), seed, 0)\nself._packed: tuple["),
    (SHARDS, "self._order[self._place]"),
    ("self.epoch += 1", "self.epoch += 1\nself._order = shuffled(len(self.shards), self.seed, self.epoch)"),
    fact="the shards keep the order of the epoch that the loader was in before load_state",
    question="A new loader loads a state of epoch 1. Which of your values depend on the epoch?",
)


@known.accepted("row by row, with the position in a tuple")
class RowByRow:
    def __init__(self, shards, batch_size, length, eos, seed=0):
        if len(shards) == 0 or batch_size <= 0:
            raise ValueError(f"{len(shards)} shards and a batch_size of {batch_size} are not enough")
        self.settings = shards, length, eos, seed
        self.batch_size, self.at, self.kept = batch_size, (0, 0, 0), {}

    @property
    def epoch(self):
        return self.at[0]

    def rows(self, epoch, place):
        if (epoch, place) not in self.kept:
            shards, length, eos, seed = self.settings
            shard = shuffled(len(shards), seed, epoch)[place]
            documents = read_shard(shards[shard], eos)
            order = shuffled(len(documents), seed, epoch, shard)
            self.kept = {(epoch, place): pack_documents([documents[i] for i in order], length, eos)}
        return self.kept[epoch, place]

    def __iter__(self):
        return self

    def __next__(self):
        parts = []
        for _ in range(self.batch_size):
            epoch, place, row = self.at
            rows = self.rows(epoch, place)
            parts.append(rows[row : row + 1])
            if row + 1 < len(rows):
                self.at = epoch, place, row + 1
            elif place + 1 < len(self.settings[0]):
                self.at = epoch, place + 1, 0
            else:
                self.at = epoch + 1, 0, 0
        return Rows.concatenate(parts)

    def state(self):
        shards, length, _, seed = self.settings
        run = {"seed": seed, "length": length, "shards": len(shards)}
        return {**run, **dict(zip(("epoch", "shard", "row"), self.at, strict=True))}

    def load_state(self, state):
        shards, length, _, seed = self.settings
        for name, mine in {"seed": seed, "length": length, "shards": len(shards)}.items():
            if state[name] != mine:
                raise ValueError(f"{name} is {mine}, not {state[name]}")
        self.at = state["epoch"], state["shard"], state["row"]

"""A state machine that plays requests against a scheduler, and one request at a time against a plain loop.

The model is a toy: the next token is a hash of all tokens that memory holds of the request, read back through its
pages. So a wrong page, a place that was written over, or a token that is missing shows in the very next token.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tiny_llm_course.programs.packages import load_solution

load_solution()
from tiny_llm_solution.serving.request import Chunk, Request, next_chunk  # noqa: E402
from tiny_llm_solution.serving.scheduler import Scheduler  # noqa: E402

VOCAB = 11
EOS, STOP = 3, 7  # the first ends a text without being part of it, the second one as its last token

MakeMemory = Callable[[Any], Any]


class Failed(Exception):
    """What the model raises when it is told to."""


class TokenPages:
    """A storage that holds the tokens themselves."""

    def __init__(self, page: int, pages: int) -> None:
        self.page_size, self.pages = page, pages
        self.tokens = np.full((pages, page), -1)

    def attend(
        self, layer: int, query: Any, key: Any, value: Any, chunks: list[Chunk], tables: list[list[int]]
    ) -> list[list[int]]:
        """For each chunk, all tokens that it sees at its end, as its pages have them."""
        seen, at = [], 0
        for chunk, table in zip(chunks, tables, strict=True):
            for position in range(chunk.start, chunk.end):
                self.tokens[table[position // self.page_size], position % self.page_size] = key[at]
                at += 1
            seen.append(self.tokens[table].flatten()[: chunk.end].tolist())
        return seen


def hashed(tokens: Sequence[int]) -> int:
    """The next token: of the order and of every token."""
    number = 1
    for token in tokens:
        number = (number * 31 + token + 7) % 100003
    return number * 7919 // 13 % VOCAB


def alone(request: Request) -> list[int]:
    """The text of one request by itself, with nothing but lists."""
    tokens = list(request.prompt)
    while len(tokens) - len(request.prompt) < request.max_tokens:
        token = hashed(tokens)
        if token in request.eos_ids:
            break
        tokens.append(token)
        if request.stop and request.stop(token):
            break
    return tokens[len(request.prompt) :]


class Toy:
    """The model. It writes to memory, and then fails if it was told to."""

    def __init__(self) -> None:
        self.fails = False

    def __call__(self, chunks: list[Chunk], memory: Any) -> mx.array:
        """As `RaggedModel`."""
        tokens = [token for chunk in chunks for token in chunk.tokens]
        seen = memory.attend(0, tokens, tokens, tokens, chunks)
        if self.fails:
            self.fails = False
            raise Failed
        rows = [
            hashed(each[: chunk.end - back]) for chunk, each in zip(chunks, seen, strict=True) for back in _back(chunk)
        ]
        return mx.array(np.eye(VOCAB, dtype=np.float32)[rows]) if rows else mx.zeros((0, VOCAB))


def _back(chunk: Chunk) -> Iterator[int]:
    return reversed(range(chunk.num_logits))


class Plans:
    """Chunks of any size in any order, and guesses of the tokens that follow; each running request has its chance."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.random = kind, random.Random(seed)

    def __call__(self, running: Sequence[Request], budget: int) -> list[Chunk]:
        """A plan of the kind: whole, cut or guessed."""
        if self.kind == "whole":
            return [next_chunk(request, request.num_uncomputed_tokens) for request in running]
        chunks = []
        for request in running:
            # Any but the oldest may be left out.
            if request is not running[0] and self.random.random() < 0.2:
                continue
            chunk = next_chunk(request, self.random.randint(1, request.num_uncomputed_tokens))
            guesses = min(self.random.randint(0, 3), request.max_tokens - len(request.output))
            if self.kind == "guessed" and chunk.num_logits and guesses:
                chunk = self._guessed(chunk, guesses)
            chunks.append(chunk)
        self.random.shuffle(chunks)
        return chunks

    def _guessed(self, chunk: Chunk, count: int) -> Chunk:
        tokens, right = list(chunk.tokens), chunk.request.tokens(0, chunk.end)
        for _ in range(count):
            right.append(hashed(right) if self.random.random() < 0.7 else self.random.randrange(VOCAB))
        return Chunk(chunk.request, chunk.start, tokens + right[chunk.end :], count + 1)


def verified(logits: mx.array, chunks: list[Chunk]) -> list[list[int]]:
    """The likeliest tokens, as far as the guesses were right, and the one behind them."""
    scores: Any = mx.argmax(logits, axis=-1).tolist() if logits.shape[0] else []
    likeliest, found = iter(scores), list[list[int]]()
    for chunk in chunks:
        answers = [next(likeliest) for _ in range(chunk.num_logits)]
        guesses = chunk.tokens[len(chunk.tokens) - chunk.num_logits + 1 :] if chunk.num_logits else []
        kept = 0
        while kept < len(guesses) and guesses[kept] == answers[kept]:
            kept += 1
        found.append(answers[: kept + 1])
    return found


class Machine(RuleBasedStateMachine):
    """Requests come, are cancelled, wait and run; the model fails now and then. After each step all is counted."""

    make: MakeMemory  # of a storage
    make_scheduler: Callable[..., Any] = Scheduler
    make_queue: Callable[[], Any] | None = None  # None for first come, first served
    steps: ClassVar[Counter[str]] = Counter()  # what all machines together have done

    @initialize(
        page=st.integers(1, 5),
        pages=st.integers(4, 14),
        slots=st.integers(2, 6),
        plan=st.sampled_from(["whole", "cut", "guessed"]),
        seed=st.integers(0, 10**6),
    )
    def begin(self, page: int, pages: int, slots: int, plan: str, seed: int) -> None:
        """A machine of any size."""
        self.random = random.Random(seed)
        self.storage = TokenPages(page, pages)
        self.kv_cache = type(self).make(self.storage)
        self.model = Toy()
        queue = type(self).make_queue
        self.scheduler = type(self).make_scheduler(
            self.model,
            self.kv_cache,
            max_num_seqs=slots,
            policy=Plans(plan, seed),
            sampler=verified,
            queue=queue() if queue else None,
        )
        self.in_order = queue is None
        self.alive: list[Request] = []
        self.gone: list[Request] = []
        self.moved: tuple[Any, ...] = ()

    @rule(
        prompts=st.lists(st.tuples(st.integers(1, 12), st.integers(2, 16), st.integers(0, 3)), min_size=1, max_size=6)
    )
    def submit(self, prompts: list[tuple[int, int, int]]) -> None:
        """Requests of any length; those of a kind begin alike."""
        for length, new, kind in prompts:
            text = [(kind * 5 + i * i) % VOCAB for i in range(length - 1)] + [self.random.randrange(VOCAB)]
            ends: Any = {"eos_ids": (EOS,), "stop": lambda token: token == STOP} if self.random.random() < 0.2 else {}
            request = Request(text, new, user=str(kind), **ends)
            fits = length + new <= self.storage.page_size * self.storage.pages
            try:
                self.scheduler.submit(request)
            except ValueError:
                assert not fits, "a request is refused that would fit"
                self.steps["refused"] += 1
                continue
            assert fits, "a request is taken that could never be served"
            self.alive.append(request)
            self.steps["requests"] += 1

    @rule(count=st.integers(1, 12))
    def go_on(self, count: int) -> None:
        """Some steps."""
        for _ in range(count):
            self.step()

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        """Somebody goes, wherever the request is."""
        request = data.draw(st.sampled_from(self.alive))
        self.scheduler.cancel(request)
        assert request.finish_reason == "cancelled"
        self.steps["cancelled"] += 1
        self.settle()
        self.count()

    @precondition(lambda self: self.alive)
    @rule()
    def fail(self) -> None:
        """The model fails when it has written; nobody has lost or won a token."""
        before = {request: list(request.output) for request in self.alive}
        self.model.fails = True
        try:
            self.scheduler.step()
        except Failed:
            self.steps["failures"] += 1
            for request in self.scheduler.running:
                assert request.output == before[request], "a step that failed has written"
                assert len(self.kv_cache.block_tables[request]) == -(
                    -request.num_computed_tokens // self.storage.page_size
                ), "room was not given back"
        self.model.fails = False
        self.moved = ()
        self.count()

    def step(self) -> None:
        """One step, of which nobody may come out worse who was there first."""
        done = self.scheduler.step()
        self.steps["steps"] += 1
        self.steps["preemptions"] += len(done.preempted)
        self.steps["hit"] = max(self.steps["hit"], getattr(self.kv_cache, "hit_tokens", 0))
        self.settle()
        self.count()
        if self.in_order and self.alive:
            oldest = min(self.alive, key=lambda one: one.request_id)
            moved = oldest.request_id, len(oldest.output), oldest.num_computed_tokens
            assert moved > self.moved, f"the oldest request, {oldest.request_id}, has not moved on"
            self.moved = moved
            last = max((one.request_id for one in self.scheduler.running), default=-1)
            waiting = {one.request_id for one in self.alive} - {one.request_id for one in self.scheduler.running}
            assert last < min(waiting, default=last + 1), "somebody runs who has come later than one that waits"

    def settle(self) -> None:
        """Look at those who have ended."""
        for request in [one for one in self.alive if one.finish_reason]:
            self.alive.remove(request)
            text = alone(request)
            if request.finish_reason == "cancelled":
                text = text[: len(request.output)]
            assert request.output == text, f"request {request.request_id} has another output than alone"

    def count(self) -> None:
        """No page is lost, none is shared by accident, and everybody has the pages of what was read."""
        memory, page, running = self.kv_cache, self.storage.page_size, self.scheduler.running
        assert set(memory.block_tables) == set(running), "tables are not those of the requests that run"
        held = Counter(number for table in memory.block_tables.values() for number in table)
        for number, times in held.items():
            if times > 1:
                self.shared(number)
        held.update(in_tree(memory))
        found = [memory.pool.ref_count(number) for number in range(self.storage.pages)]
        assert found == [held[number] for number in range(self.storage.pages)], "a page is lost, or counted twice"
        assert memory.pool.num_free == found.count(0)
        for request in running:
            table = memory.block_tables[request]
            assert len(table) * page >= request.num_computed_tokens, "tokens were read that have no page"
            tokens = self.storage.tokens[table].flatten()[: request.num_computed_tokens].tolist()
            assert tokens == request.tokens(0, request.num_computed_tokens), "other tokens are in a page than were read"

    def shared(self, number: int) -> None:
        """Who holds the same page has it at the same place, full of the same tokens."""
        page, holders = (
            self.storage.page_size,
            [one for one, table in self.kv_cache.block_tables.items() if number in table],
        )
        assert hasattr(self.kv_cache, "tree"), f"page {number} is in two tables"
        places = {self.kv_cache.block_tables[one].index(number) for one in holders}
        assert len(places) == 1, f"page {number} is at two places"
        end = (places.pop() + 1) * page
        assert len({tuple(one.tokens(0, end)) for one in holders}) == 1, f"page {number} is shared by different texts"
        assert all(one.num_computed_tokens >= end for one in holders), f"page {number} is shared, and not full"

    def teardown(self) -> None:
        """All that is left comes to an end, in as many steps as there are tokens at most; then nothing is held."""
        if not hasattr(self, "scheduler"):
            return
        most = sum(len(one.prompt) + 2 * one.max_tokens for one in self.alive) + 1
        for _ in range(most):
            if not self.alive:
                break
            self.step()
        assert not self.alive, f"requests {[one.request_id for one in self.alive]} have starved"
        held = len(set(in_tree(self.kv_cache)))
        assert self.kv_cache.pool.num_free == self.storage.pages - held, "pages are held, and nobody is here"


def in_tree(memory: Any) -> Iterator[int]:
    """The pages of a prefix cache, each as often as it is there."""
    edges = [memory.tree.root] if hasattr(memory, "tree") else []
    while edges:
        edge = edges.pop()
        yield from edge.pages
        edges += edge.children.values()

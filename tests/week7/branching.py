"""A scheduler with a prefix cache, without a model, for task 7.5.3; and when each request may be submitted."""

from typing import Any

from tiny_llm_course.testkit.errors import Kind, fail


class FakeScheduler:
    """Serves requests as the real one does: admits, prefills up to a budget, decodes, and keeps whole pages.

    A page is the tuple of all tokens up to its end. Each new token is the number of tokens so far.
    """

    def __init__(
        self,
        request: Any,
        chunk: Any,
        step: Any,
        page_size: int,
        budget: int = 1000,
        seqs: int = 100,
        lost: tuple[int, ...] = (),
    ) -> None:
        """Keep what a run needs; after each of the steps `lost`, the first running request is preempted."""
        self.make, self.chunk, self.done = request, chunk, step
        self.page_size, self.budget, self.seqs, self.lost = page_size, budget, seqs, lost
        self.cached, self.waiting, self.running = set[tuple[int, ...]](), list[Any](), list[Any]()
        self.log = list[str]()  # what happened
        self.steps = 0

    def submit(self, request: Any) -> None:
        """Queue a request, and note the step."""
        if not request.prompt:
            raise ValueError("0 tokens, 1 to follow: each must be 1 at least")
        self.log.append(f"step {self.steps}: submit {_words(request.prompt)}")
        self.waiting.append(request)

    def step(self) -> Any:
        """Run one step."""
        if self.steps > 5000:
            fail(Kind.VALUES, "5,000 steps, and requests are still waiting or running", "a run of explore()")
        for request in self.running:
            self._keep(request)
        while self.waiting and len(self.running) < self.seqs:
            request = self.waiting.pop(0)
            for end in range(self.page_size, request.num_tokens, self.page_size):
                if tuple(request.tokens(0, end)) not in self.cached:
                    break
                request.num_computed_tokens = end
            self.running.append(request)
        step, left = self.done(), self.budget
        for request in sorted(self.running, key=lambda each: each.num_uncomputed_tokens):
            count = min(request.num_uncomputed_tokens, left)
            if count:
                start, left = request.num_computed_tokens, left - count
                end = start + count
                step.chunks.append(
                    self.chunk(request, start, request.tokens(start, end), int(end == request.num_tokens))
                )
        for chunk in step.chunks:
            request = chunk.request
            request.num_computed_tokens = chunk.end
            if chunk.num_logits:
                request.output.append(request.num_tokens)
                if len(request.output) == request.max_tokens:
                    request.finish_reason = "length"
                    self._keep(request)
                    self.running.remove(request)
        self.steps += 1
        if self.steps in self.lost and self.running:
            self.waiting.insert(0, request := self.running.pop(0))
            request.num_computed_tokens = 0
            self.cached.clear()  # of another request that runs, the pages come back in the next step
        self.log.append(f"step {self.steps}: {sum(len(chunk.tokens) for chunk in step.chunks)} tokens")
        return step

    def _keep(self, request: Any) -> None:
        for end in range(self.page_size, request.num_computed_tokens + 1, self.page_size):
            self.cached.add(tuple(request.tokens(0, end)))


def _words(tokens: list[int]) -> str:
    return " ".join(map(str, tokens[:12])) + " ..." * (len(tokens) > 12)


def pages(tokens: list[int], size: int) -> set[tuple[int, ...]]:
    """Return the whole pages of a sequence, each with all that is before it."""
    return {tuple(tokens[:end]) for end in range(size, len(tokens) + 1, size)}


def blocked(prompt: list[int], others: list[Any], size: int) -> bool:
    """Return whether a request has to wait for one of the others: a page of both prompts that none has computed."""
    own = pages(prompt[:-1], size)
    shared = [(other, own & pages(other.prompt, size)) for other in others]
    ready = {page for other, found in shared for page in found if len(page) <= other.num_computed_tokens}
    return any(found - ready for other, found in shared if not other.finish_reason)


# Prompts that share prefixes, for pages of 4 tokens
STEM = list(range(10, 22))  # three pages
FAMILIES: dict[str, list[list[int]]] = {
    "one request": [STEM],
    "nothing in common": [[1] * 9, [2] * 9, [3] * 9],
    "three branches": [[*STEM, n, n + 1] for n in (1, 3, 5)],
    "the prefix itself, and two branches": [STEM, [*STEM, 1], [*STEM, 2, 3]],
    "equal prompts": [[*STEM, 1]] * 3,
    "equal prompts of whole pages": [STEM] * 3,
    "a prefix of half a page": [[10, 11, n, n, n] for n in (1, 2, 3)],
    "a page and a half in common": [[*STEM[:6], n, n, n, n] for n in (1, 2, 3)],
    "only the last token makes the page": [STEM[:4], STEM[:4]],
    "two families": [[*STEM, 1], [9] * 12, [*STEM, 2], [*[9] * 12, 1]],
    "two branches and another prompt": [[*STEM, 1], [*STEM, 2], [9] * 9],
    "branches of branches": [[*STEM, *a, *b] for a in ([1] * 8, [2] * 8) for b in ([3] * 5, [4] * 5)],
    "a longer one first": [[*STEM, *[1] * 12], STEM[:9], [*STEM, 2]],
    "a longer one last": [STEM[:9], [*STEM, 2], [*STEM, *[1] * 12]],
    "the same later in the prompt": [[1, *STEM], [2, *STEM]],
    "a single token": [[5], [5]],
}

"""Branches: several continuations of one prefix, which is prefilled once."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..serving.request import Request
from ..serving.scheduler import Scheduler


@dataclass(frozen=True)
class Exploration:
    """What a run of `explore` computed."""

    steps: int  # of the scheduler
    prompt_tokens: int  # of all prompts together
    prefilled_tokens: int  # how many of them were computed

    @property
    def saved(self) -> float:
        """The fraction of the prompt tokens that the prefix cache saved."""
        return 1 - self.prefilled_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def explore(scheduler: Scheduler, requests: Sequence[Request], page_size: int) -> Exploration:
    """Serve requests whose prompts share prefixes, so that each shared page is prefilled once.

    A prefix cache reuses what *has been* computed. Of two requests that are admitted in the same step, each computes
    the whole prefix. So a request is submitted to the scheduler only when nothing that it could reuse is still being
    computed:

    - The pages that two requests can share are the whole pages at the beginning of both prompts. A cache never reuses
      the last token of a prompt, so a request's last token does not count for itself: after the prompts [1, 2, 3, 4]
      and [1, 2, 3, 4], with pages of 2, the second request can reuse one page.
    - A request waits as long as another one that was submitted, and has not finished, has such a page that none of the
      submitted ones, finished or not, has computed (what preemption lost is not). Otherwise it is submitted before
      the next step.

    The requests are considered in their order, before each step; one that was submitted a moment ago counts as well. No
    request waits for longer than that: branches decode together.

    Args:
        scheduler: with a prefix cache; it may have other requests, which are served along, but are neither waited for
            nor counted.
        requests: not submitted yet. Their `output` and `finish_reason` are set by the scheduler, as always.
        page_size: tokens per page of the cache.

    Returns:
        The steps until all requests have finished; the tokens of all prompts; and how many tokens of these prompts the
        steps' chunks contain. Tokens of outputs do not count, and those computed twice, after preemption, count twice.

    Raises:
        ValueError: the scheduler refuses a request. Those that were submitted before it stay in the scheduler.
    """
    waiting, sent = list(requests), list[Request]()
    steps = prefilled = 0
    while waiting or any(not request.finish_reason for request in sent):
        for request in list(waiting):
            shared = [(other, _shareable(request, other, page_size)) for other in sent]
            computed = max((min(count, other.num_computed_tokens) for other, count in shared), default=0)
            if all(count <= computed or other.finish_reason for other, count in shared):
                scheduler.submit(request)
                sent.append(request)
                waiting.remove(request)
        step = scheduler.step()
        steps += 1
        own = [chunk for chunk in step.chunks if chunk.request in sent]
        prefilled += sum(max(0, min(chunk.end, len(chunk.request.prompt)) - chunk.start) for chunk in own)
    return Exploration(steps, sum(len(request.prompt) for request in requests), prefilled)


def _shareable(request: Request, other: Request, page_size: int) -> int:
    """Return how many tokens of `other`'s prompt a request could reuse: whole pages of the common prefix."""
    pairs = zip(request.prompt[:-1], other.prompt, strict=False)
    common = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(request.prompt) - 1, len(other.prompt)))
    return common // page_size * page_size

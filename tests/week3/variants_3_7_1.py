"""Known programs of task 3.7.1, the loop of an engine."""

import asyncio
from contextlib import suppress
from functools import partial

import mlx.core as mx
from tests.week3.loop_scenes import SCENES, played
from tiny_llm_solution.server.loop import EngineClosed, EngineFailed, News

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.7.1")


def lines(name, program):
    """What comes of a scene, as the numbers of its characters."""
    return mx.array(list("\n".join(played(program, name)).encode()))


for each in SCENES:
    known.probe()(partial(lines, each))

known.not_timed("what takes time in it is the model")

known.change(
    "steps-in-the-event-loop",
    ("step = await self._do(self._scheduler.step)", "step = self._scheduler.step()\nawait asyncio.sleep(1.0)"),
    fact="the steps are computed in the event loop itself, where nobody else is heard in the meantime",
    question="A step takes 20 ms. Who answers a new connection in these 20 ms?",
)
known.change(
    "submits-in-the-event-loop",
    ("await self._do(self._scheduler.submit, request)", "self._scheduler.submit(request)"),
    fact="requests are submitted by the event loop, perhaps in the middle of a step",
    question="Which thread may touch the scheduler's lists while a step goes through them?",
)
known.change(
    "cancels-in-the-event-loop",
    ("self._worker.submit(self._cancel, request)", "self._cancel(request)"),
    fact="who leaves is cancelled by the event loop, perhaps in the middle of a step",
    question="A step is computing a request's chunk. What is left of its keys if you release them now?",
)
known.change(
    "goes-on-for-nobody",
    ("self._worker.submit(self._cancel, request)", "pass"),
    fact="a caller who leaves goes without cancelling, and the model writes on for nobody",
    question="The browser tab is closed after ten of a thousand tokens. What does the model compute next?",
)
known.change(
    "the-cancelled-alone",
    (
        """
        finally:
            for request in requests:
                if self._callers.pop(request, None):
                    self._worker.submit(self._cancel, request)
        """,
        """
        except asyncio.CancelledError:
            for request in requests:
                if self._callers.pop(request, None):
                    self._worker.submit(self._cancel, request)
            raise
        """,
    ),
    fact="only a caller who is cancelled is cleaned up after, not one who closes the generator or is refused",
    question="aclose() raises a GeneratorExit where your generator waits. Which of its lines are run then?",
)
known.change(
    "waits-while-it-leaves",
    ("self._worker.submit(self._cancel, request)", "await self._do(self._cancel, request)"),
    fact="who leaves waits for each request's cancellation, and leaves the rest behind if cancelled again",
    question="A task is cancelled, and once more while it is in its finally. Which of its lines are still run?",
)
known.change(
    "waits-once-for-all",
    (
        """
        for request in requests:
            if self._callers.pop(request, None):
                self._worker.submit(self._cancel, request)
        """,
        """
        for request in [each for each in requests if self._callers.pop(each, None)]:
            await self._do(self._cancel, request)
        """,
    ),
    fact="who leaves waits until it is cancelled, and if cancelled again meanwhile, all its requests stay",
    question="A task is cancelled, and once more at its next await. What becomes of a job that has not begun?",
)
known.change(
    "the-first-stays",
    ("if self._callers.pop(request, None):", "if self._callers.pop(request, None) and request.output:"),
    fact="only who has got tokens is cancelled, so that one that was submitted before another was refused stays",
    question="Of two requests the second is refused. Where is the first one by then?",
)
known.change(
    "heard-of-too-late",
    (
        """
        self._callers[request] = mailbox  # before the job: the next step may already have a token
        await self._do(self._scheduler.submit, request)
        """,
        """
        await self._do(self._scheduler.submit, request)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(1.0)
        self._callers[request] = mailbox
        """,
    ),
    fact="a caller's mailbox is there a step after its request, and what comes in between is lost",
    question="Your submit is done, and the next step begins before your coroutine goes on. Who is told its tokens?",
)
known.change(
    "closed-before-it-is-heard-of",
    ("self._callers[request] = mailbox  # before the job: the next step may already have a token", "pass"),
    (
        "await self._do(self._scheduler.submit, request)",
        "await self._do(self._scheduler.submit, request)\nself._callers[request] = mailbox",
    ),
    fact="a caller is known only once its request is submitted, so that close passes over one that is on its way",
    question="close comes while a submit waits behind a step. Whom does it find in your table, and whom does it tell?",
)
known.change(
    "stepping-begins-once",
    ("if self._stepping is None or self._stepping.done():", "if self._stepping is None:"),
    fact="who comes when all others have left waits for ever, as the task that steps has ended with them",
    question="Your task ends when nobody is there. Who begins it anew?",
)
known.change(
    "no-step-behind-an-error",
    ("await self._fail(error)\ncontinue", "await self._fail(error)\nreturn"),
    fact="no step follows one that has failed, and those who had nothing to do with it wait for ever",
    question="Three wait for a place when a step fails. Who steps for them?",
)
known.change(
    "an-error-ends-the-loop",
    ("await self._fail(error)\ncontinue", "raise"),
    fact="somebody who ran in a step that fails is never told, and waits for ever",
    question="Who hears of an exception in a task that nobody awaits?",
)
known.change(
    "everybody-fails",
    ("for request in failed or list(self._callers):", "for request in list(self._callers):"),
    fact="a step that fails ends everybody, those who only wait too",
    question="Whose tokens were in the step that failed?",
)
known.change(
    "failed-and-still-there",
    ("for request in running:\n    self._scheduler.cancel(request)", "pass"),
    ("await self._do(self._cancel, request)\nmailbox.fail(error)", "mailbox.fail(error)"),
    fact="the callers are told of the error, and their requests run on in the scheduler",
    question="After your task has failed its callers, who is in the scheduler's list when it steps again?",
)
known.change(
    "the-bare-error",
    ('raise EngineFailed("the model has failed") from self._error', "raise self._error"),
    fact="callers get the model's own exception, and not an EngineFailed",
    question="How is a caller to tell a ValueError of the model from one that says that its own request is wrong?",
)
known.change(
    "again-and-again",
    ("for request in failed or list(self._callers):", "for request in failed:"),
    fact="a step that fails before anybody runs is tried again for ever",
    question="No request was running when the step failed. Who will be different when it is tried again?",
)
known.change(
    "a-step-ahead",
    ('finished = request.finished if request in step.finished else ""', "finished = request.finished"),
    ("while ended < len(requests):", "while ended < len(requests) and not all(r.finished for r in requests):"),
    fact="the stream ends as soon as request.finished says so, which may be before the last news",
    question="Who writes request.finished, and when is the step told in which it was written?",
)
known.change(
    "error-before-news",
    ("if not self._news and self._error:", "if self._error:"),
    fact="a reader with unread news gets the error at once, and those tokens are lost",
    question="A reader sleeps for three steps, then the server is closed. What should it find first?",
)
known.change(
    "waits-for-none",
    ("while ended < len(requests):", "while True:"),
    ("yield news\n", "yield news\nif ended == len(requests):\n    return"),
    fact="a stream of no requests waits for news that never come",
    question="How many of no requests must have ended before the stream does?",
)
known.change(
    "last-token-of-a-step",
    ("mailbox.tell(request, tokens, finished)", "mailbox.tell(request, tokens[-1:], finished)"),
    fact="of several tokens that a step has given, the last one alone is told",
    question="A guess of four tokens was right. How many tokens has the text gained in this step?",
)
known.change(
    "last-news-only",
    ("News(request, before + tokens, finished)", "News(request, tokens, finished)"),
    fact="a slow reader finds the newest tokens alone, and what came before is lost",
    question="Three steps were done while the reader slept. Which tokens does it find?",
)
known.change(
    "empty-news",
    ("if not tokens and not finished:\n    return", ""),
    fact="there are news of steps in which nothing was gained",
    question="A long prompt is read in ten steps. What is there to be told of the first nine?",
)
known.change(
    "never-stops-stepping",
    ("while self._callers:", "while True:\n    await asyncio.sleep(0 if self._callers else 0.5)"),
    fact="steps go on when nobody is there",
    question="What does a server compute at night?",
)
known.change(
    "still-taking",
    ("self._closed = True", "pass"),
    fact="new requests are taken after close was called",
    question="A server is going down, and one more caller comes. When will it be down?",
)
known.change(
    "closes-at-once",
    ("await asyncio.wait([self._stepping], timeout=seconds)", "await asyncio.wait([self._stepping], timeout=0.0)"),
    fact="close cancels at once, however many seconds there are",
    question="What are the seconds for that close is given?",
)
known.change(
    "closes-when-all-is-done",
    ("await asyncio.wait([self._stepping], timeout=seconds)", "await asyncio.wait([self._stepping])"),
    fact="close waits until everybody has ended, however long it takes",
    question="Somebody has asked for ten thousand tokens. When is your server down?",
)
known.change(
    "closed-without-a-word",
    ('mailbox.fail(EngineClosed("the server is shutting down"))', "pass"),
    fact="who is cut off by close is told nothing, and waits for ever",
    question="Who wakes up a caller whose request will never have another token?",
)
known.change(
    "close-ends-the-stepping",
    (
        "await asyncio.wait([self._stepping], timeout=seconds)",
        "with suppress(TimeoutError):\n    await asyncio.wait_for(self._stepping, seconds)",
    ),
    (
        "if self._stepping:\n    await self._stepping",
        "if self._stepping:\n    with suppress(asyncio.CancelledError):\n        await self._stepping",
    ),
    fact="the task that steps is cancelled once the seconds of close are over, and its last step is told to nobody",
    question="What becomes of the task that asyncio.wait_for waits for when the time is over?",
)
known.change(
    "closes-one-by-one",
    (
        "asyncio.gather(*(self._do(self._cancel, request) for request, _ in left))",
        "asyncio.sleep(0)\nfor request, _ in left:\n    await self._do(self._cancel, request)",
    ),
    fact="close cancels one request after the other, and all but the first gain tokens of one more step",
    question="You await a job, and submit the next one. What has another task submitted in between?",
)
known.change(
    "closed-in-a-step",
    ("if self._stepping:\n    await self._stepping", ""),
    fact="close does not wait for a step whose callers have all left",
    question="The last caller leaves in the middle of a step, and close is called. When is the worker idle?",
)
known.change(
    "closed-is-asked-once",
    (
        """
        for request in requests:
            if self._closed:
                raise EngineClosed("the server is shutting down")
        """,
        """
        if self._closed:
            raise EngineClosed("the server is shutting down")
        for request in requests:
        """,
    ),
    fact="of several requests, those behind the first are submitted although close was called meanwhile",
    question="You await between two submits. What may somebody else have called by then?",
)
known.change(
    "watched-afterwards",
    ("self._watch(step)\n", ""),
    (
        "if finished:\n    self._callers.pop(request, None)",
        "if finished:\n    self._callers.pop(request, None)\nawait asyncio.sleep(0.1)\nself._watch(step)",
    ),
    fact="watch is told of a step after the callers are",
    question="A caller asks for the figures as soon as it has its token. Is its step among them?",
)


@known.accepted("a queue for each caller")
class QueueForEach:
    def __init__(self, scheduler, worker, watch=lambda step: None):
        self.scheduler, self.worker, self.watch = scheduler, worker, watch
        self.queues, self.task, self.closing = {}, None, False

    async def job(self, call, *args):
        return await asyncio.wrap_future(self.worker.submit(call, *args))

    async def stream(self, requests):
        queue, left = asyncio.Queue(), set(requests)
        try:
            for request in requests:
                if self.closing:
                    raise EngineClosed("closing")
                self.queues[request] = queue
                await self.job(self.scheduler.submit, request)
            if not self.task or self.task.done():
                self.task = asyncio.ensure_future(self.serve())
            while left:
                found = [await queue.get()]
                while not queue.empty():
                    found.append(queue.get_nowait())
                news, error = {}, None
                for request, tokens, finished in found:
                    if isinstance(tokens, Exception):
                        error = tokens
                    else:
                        old = news.get(request, (request, [], ""))
                        news[request] = request, old[1] + tokens, finished
                for each in news.values():
                    left -= {each[0]} if each[2] else set()
                    yield News(*each)
                if isinstance(error, EngineClosed):
                    raise error
                if error:
                    raise EngineFailed("failed") from error
        finally:
            for request in requests:
                if self.queues.pop(request, None) is not None:
                    self.worker.submit(self.cancelled, [request])

    def cancelled(self, requests):
        for request in requests:
            with suppress(ValueError):
                self.scheduler.cancel(request)

    def all_running(self):
        found = list(self.scheduler.running)
        self.cancelled(found)
        return found

    async def serve(self):
        while self.queues:
            try:
                step = await self.job(self.scheduler.step)
            except Exception as error:
                failed = await self.job(self.all_running) or list(self.queues)
                await self.job(self.cancelled, failed)
                for request in failed:
                    if request in self.queues:
                        self.queues.pop(request).put_nowait((request, error, ""))
                continue
            self.watch(step)
            for chunk, new in zip(step.chunks, step.new, strict=True):
                done = chunk.request in step.finished
                if (new or done) and chunk.request in self.queues:
                    self.queues[chunk.request].put_nowait((chunk.request, new, chunk.request.finished if done else ""))
                    if done:
                        del self.queues[chunk.request]

    async def close(self, seconds):
        self.closing = True
        if self.task and not self.task.done():
            await asyncio.wait({self.task}, timeout=seconds)
        left = dict(self.queues)
        await self.job(self.cancelled, list(left))
        self.queues.clear()
        for request, queue in left.items():
            queue.put_nowait((request, EngineClosed("closing"), ""))
        if self.task:
            await self.task

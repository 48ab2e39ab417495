"""Known programs of task 3.7.1, the loop of an engine."""

import asyncio
from contextlib import suppress
from functools import partial

import mlx.core as mx
from tests.week3.engine_room import Room, asked
from tests.week3.loop_scenes import SCENES, played
from tests.week3.virtual_time import play
from tiny_llm_solution.server.loop import EngineClosed, EngineFailed, RequestUpdate

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.7.1")


def lines(name, program):
    """Return a scene's log, as character codes."""
    return mx.array(list("\n".join(played(program, name)).encode()))


for each in SCENES:
    known.probe()(partial(lines, each))


@known.probe()
def loop_leaves_before_a_slot_is_free(program):
    """The second caller's request is submitted but never admitted."""

    async def script():
        room = Room(program, slots=1)
        first, gone = room.caller(asked(100, 4)), room.caller(asked(200, 50))
        await asyncio.sleep(1.5)
        gone.cancel()
        await asyncio.sleep(1.0)
        held = room.held()
        await first
        return [held, *(line for told in room.told for line in told), room.held()]

    return mx.array(list("\n".join(play(script(), "one slot")).encode()))


known.not_timed("the model takes the time")

known.change(
    "steps-in-the-event-loop",
    ("step = await self._do(self._scheduler.step)", "step = self._scheduler.step()\nawait asyncio.sleep(1.0)"),
    fact="steps run in the event loop itself and block it",
    question="A step takes 20 ms. What answers a new connection during these 20 ms?",
)
known.change(
    "submits-in-the-event-loop",
    ("await self._do(self._scheduler.submit, request)", "self._scheduler.submit(request)"),
    fact="the event loop calls submit directly, perhaps in the middle of a step",
    question="Which thread may touch the scheduler's lists during a step?",
)
known.change(
    "cancels-in-the-event-loop",
    ("self._worker.submit(self._cancel, request)", "self._cancel(request)"),
    fact="the event loop calls cancel directly, perhaps in the middle of a step",
    question="A step is computing a request's chunk. What happens to its keys if you release them now?",
)
known.change(
    "disconnect-not-cancelled",
    ("self._worker.submit(self._cancel, request)", "pass"),
    fact="a disconnected caller's requests are not cancelled",
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
    fact="requests are cleaned up only on CancelledError, not when the generator is closed or a submit raises",
    question="aclose() raises GeneratorExit where your generator waits. Which of its lines run then?",
)
known.change(
    "waits-while-it-leaves",
    ("self._worker.submit(self._cancel, request)", "await self._do(self._cancel, request)"),
    fact="a caller that leaves waits for the current step, and one that is cancelled twice leaves requests that run on",
    question="A task is cancelled, and once more inside its finally. Which of its lines still run?",
)
known.change(
    "the-first-stays",
    ("if self._callers.pop(request, None):", "if self._callers.pop(request, None) and request.output:"),
    fact="only requests with tokens are cancelled, so one submitted before a failed submit stays",
    question="The second of two submits raises. Where is the first request by then?",
)
known.change(
    "one-of-two-stays",
    (
        """
        finally:
            for request in requests:
                if self._callers.pop(request, None):
        """,
        """
        except ValueError:
            for request in requests:
                self._callers.pop(request, None)
            raise
        finally:
            for request in requests:
                if self._callers.pop(request, None):
        """,
    ),
    fact="a request that was submitted before a rejected one stays in the scheduler",
    question="The scheduler rejects the second of two requests. Who gets the tokens of the first?",
)
known.change(
    "submits-before-the-try",
    (
        """
        for request in requests:
            if self._closed:
                raise EngineClosed("the server is shutting down")
            self._callers[request] = inbox  # before submitting: the next step may already yield a token
            await self._do(self._scheduler.submit, request)
        """,
        "pass",
    ),
    (
        "inbox = _Inbox()",
        """
        inbox = _Inbox()
        for request in requests:
            if self._closed:
                raise EngineClosed("the server is shutting down")
            self._callers[request] = inbox
            await self._do(self._scheduler.submit, request)
        """,
    ),
    fact="submits precede the try, so neither a rejected request nor a caller cancelled then is cleaned up",
    question="A caller is cancelled while its submit waits for the step. Which of your lines run then?",
)
known.change(
    "heard-of-too-late",
    (
        """
        self._callers[request] = inbox  # before submitting: the next step may already yield a token
        await self._do(self._scheduler.submit, request)
        """,
        """
        await self._do(self._scheduler.submit, request)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(1.0)
        self._callers[request] = inbox
        """,
    ),
    fact="a caller's inbox is created after submit, so updates in between are lost",
    question="The next step starts after your submit, before your coroutine resumes. Which inbox gets its tokens?",
)
known.change(
    "closed-before-it-is-heard-of",
    ("self._callers[request] = inbox  # before submitting: the next step may already yield a token", "pass"),
    (
        "await self._do(self._scheduler.submit, request)",
        "await self._do(self._scheduler.submit, request)\nself._callers[request] = inbox",
    ),
    fact="a caller is registered only after submit, so close misses one that is still being submitted",
    question="close is called while a submit waits for the step. Which callers are in your table, and notified?",
)
known.change(
    "stepping-begins-once",
    ("if self._stepping is None or self._stepping.done():", "if self._stepping is None:"),
    fact="the stepping task is started only once, so requests after an idle period wait for ever",
    question="Your task ends when no request is left. What starts it again?",
)
known.change(
    "no-step-after-an-error",
    ("await self._fail(error)\ncontinue", "await self._fail(error)\nreturn"),
    fact="stepping ends after a failed step, so waiting requests that were not part of it wait for ever",
    question="Three requests wait for a slot when a step fails. What runs the next step?",
)
known.change(
    "an-error-ends-the-loop",
    ("await self._fail(error)\ncontinue", "raise"),
    fact="the callers of a failed step are never notified",
    question="A task raises, and nothing awaits it. Where does its exception go?",
)
known.change(
    "everybody-fails",
    ("for request in failed or list(self._callers):", "for request in list(self._callers):"),
    fact="a failed step also fails the requests that were only waiting",
    question="Which requests had tokens in the step that failed?",
)
known.change(
    "no-request-fails",
    ("for request in failed or list(self._callers):", "for request in failed:"),
    fact="a step that fails before any request runs fails no caller",
    question="Admission raises an error, so nothing runs. What will the next step do?",
)
known.change(
    "failed-and-still-there",
    ("for request in running:\n    self._scheduler.cancel(request)", "pass"),
    ("await self._do(self._cancel, request)\ninbox.fail(error)", "inbox.fail(error)"),
    fact="a failed step's callers get the error, but their requests stay in the scheduler",
    question="Your task has failed its callers. What is in the scheduler's list at the next step?",
)
known.change(
    "the-bare-error",
    ('raise EngineFailed("the model has failed") from self._error', "raise self._error"),
    fact="callers get the model's own exception instead of EngineFailed",
    question="How does a caller distinguish the model's ValueError from one about an invalid request?",
)
known.change(
    "a-step-ahead",
    ('finished = request.finish_reason if request in step.finished else ""', "finished = request.finish_reason"),
    ("while ended < len(requests):", "while ended < len(requests) and not all(r.finish_reason for r in requests):"),
    fact="the stream ends as soon as request.finish_reason is set, perhaps before the last update",
    question="What sets request.finish_reason, and when does that step's update arrive?",
)
known.change(
    "error-before-news",
    ("if not self._updates and self._error:", "if self._error:"),
    fact="an error discards the updates that the reader has not read yet",
    question="A reader sleeps for three steps, then the server is closed. What should it get first?",
)
known.change(
    "waits-for-none",
    ("while ended < len(requests):", "while True:"),
    ("yield update\n", "yield update\nif ended == len(requests):\n    return"),
    fact="a stream of no requests waits for ever",
    question="How many of zero requests must finish before the stream ends?",
)
known.change(
    "last-token-of-a-step",
    ("inbox.put(request, tokens, finished)", "inbox.put(request, tokens[-1:], finished)"),
    fact="only the last of a step's several tokens is reported",
    question="Four draft tokens were accepted. How many tokens has the step added?",
)
known.change(
    "last-news-only",
    ("RequestUpdate(request, before + tokens, finished)", "RequestUpdate(request, tokens, finished)"),
    fact="a slow reader gets only the newest update",
    question="Three steps ran while the reader slept. Which tokens should it get?",
)
known.change(
    "an-update-per-step",
    (
        "self._updates[request] = RequestUpdate(request, before + tokens, finished)",
        "self._updates[object()] = RequestUpdate(request, tokens, finished)",
    ),
    fact="a slow caller gets an update for each step instead of one per request",
    question="A reader sleeps for a thousand steps. How many updates does its inbox hold for one request?",
)
known.change(
    "cleared-after-sending",
    ("if not self._error:\n    self._filled.clear()\n", ""),
    (
        """
        for update in await inbox.get():
            ended += bool(update.finish_reason)
            yield update
        """,
        """
        for update in await inbox.get():
            ended += bool(update.finish_reason)
            yield update
        inbox._filled.clear()
        """,
    ),
    fact="the event is cleared after the updates have been yielded, so those that arrive meanwhile wake no caller",
    question="Three steps end while a caller sends one update. What wakes it for their tokens?",
)
known.change(
    "empty-news",
    ("if not tokens and not finished:\n    return", ""),
    fact="steps that produced no token also send an update",
    question="A long prompt is prefilled in ten steps. What is there to report about the first nine?",
)
known.change(
    "never-stops-stepping",
    ("while self._callers:", "while True:\n    await asyncio.sleep(0 if self._callers else 0.5)"),
    fact="steps continue when there are no requests",
    question="What does a server compute when it is idle?",
)
known.change(
    "still-taking",
    ("self._closed = True", "pass"),
    fact="new requests are accepted after close",
    question="A server is shutting down, and another request arrives. When will it be down?",
)
known.change(
    "closes-at-once",
    ("await asyncio.wait([self._stepping], timeout=seconds)", "await asyncio.wait([self._stepping], timeout=0.0)"),
    fact="close cancels at once, ignoring its timeout",
    question="What is the argument `seconds` of close for?",
)
known.change(
    "closes-when-all-is-done",
    ("await asyncio.wait([self._stepping], timeout=seconds)", "await asyncio.wait([self._stepping])"),
    fact="close ignores its timeout and waits for every request",
    question="A client has asked for ten thousand tokens. When is your server down?",
)
known.change(
    "cancels-one-by-one",
    (
        "await asyncio.gather(*(self._do(self._cancel, request) for request, _ in left))",
        "for request, _ in left:\n    await self._do(self._cancel, request)",
    ),
    fact="close waits for each cancellation before it queues the next, so another step runs in between",
    question="The first of two cancellations is done. Which task does the worker take next?",
)
known.change(
    "closed-within-a-step",
    ("if self._stepping:\n    await self._stepping", "pass"),
    fact="close does not wait for the step that is still running",
    question="The last caller has left in the middle of a step. What is the worker doing when close returns?",
)
known.change(
    "closed-without-a-word",
    ('inbox.fail(EngineClosed("the server is shutting down"))', "pass"),
    fact="callers that close cuts off are not notified and wait for ever",
    question="What wakes up a caller whose request will never get another token?",
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
                    yield RequestUpdate(*each)
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
                    self.queues[chunk.request].put_nowait(
                        (chunk.request, new, chunk.request.finish_reason if done else "")
                    )
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

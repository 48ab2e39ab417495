"""Known programs of task 3.2.2, the fair queue."""

from collections import defaultdict
from functools import partial

import mlx.core as mx
from tests.week3.fairness import Script, script_of
from tiny_llm_solution.serving.request import Request

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.2")


def played(program, script):
    """Who was let in, how many wait after each line, and the counters at the end, by the names of the users."""
    mine, waiting = Script(program(), Request), []
    for line in script_of(script):
        mine.play(line)
        waiting.append(len(mine.queue))
    counters = mine.queue.counters
    return (
        mx.array(mine.told or [-2]),
        mx.array(waiting),
        mx.array([counters.get(u, -1) for u in ("ann", "bob", "cleo")]),
    )


SCRIPTS = {
    "long_and_short": (
        "ann 8 x3, bob 2 x6, in, read 0 8, finish 0, in, read 3 2, finish 3, in, read 4 2, read 4 1, finish 4, in, "
        "read 5 2, finish 5, in x3"
    ),
    "three_users": "ann 9 x2, bob 4 x3, in x2, read 0 9, read 2 4, finish 0, finish 2, cleo 2 x5, in x8",
    "back_with_more": "ann 9, bob 2, in x2, read 0 9, read 1 2, finish 0, finish 1, bob 2 x3, ann 2, in x4",
    "nobody_waits": "ann 6, in, read 0 6, finish 0, bob 2 x2, ann 2, in x3",
    # Ann leaves with 4 tokens, has 8 when nobody waits, and Bob is new.
    "last_has_had_more_since": "ann 4, in, read 0 4, finish 0, ann 4, in, read 1 4, finish 1, bob 4, ann 4, in x2",
    "last_of_two": "ann 9, bob 3, in x2, read 0 9, read 1 3, finish 0, finish 1, cleo 2 x3, bob 1, ann 1, in x5",
    "put_back_poor": "ann 9 x2, bob 2, in x2, read 0 9, read 2 1, put back 2, bob 2, in x3",
    # Cleo has had a token and is gone; Ann has had many, and waits; Bob is new.
    "somebody_long_ago": "cleo 1, in, read 0 1, finish 0, ann 8 x3, in, read 1 8, finish 1, bob 3 x4, in x6",
    # Bob has had two tokens and comes back when Ann, of whom something waits, has had more.
    "back_with_less": "bob 2, in, read 0 2, finish 0, ann 8 x2, in, read 1 8, finish 1, bob 3 x3, in x4",
    # Bob is new when nobody waits; Cleo has had little, and Ann was the last to leave.
    "back_to_an_empty_queue": "cleo 1, in, read 0 1, finish 0, ann 8, in, read 1 8, finish 1, bob 3, ann 2, in x2",
    "greedy": "ann 4 x6, bob 4, in x8",
    "one_user": "ann 4 x3, in x3",
    "ties": "bob 4, ann 4, bob 4, in x3",
    "claims": "ann 5 x3, bob 2 x4, in x7",
    "half_read": "ann 8 x2, bob 3 x4, in, read 0 4, in x5",
    "finished": "ann 8 x2, bob 2 x2, in, read 0 1, finish 0, in x3",
    "new_user": "ann 4 x4, in, read 0 4, finish 0, bob 3 x3, in x6",
    "put_back": "ann 4 x3, in, read 0 4, put back 0, in x3",
    "put_back_unread": "ann 4 x2, bob 4 x2, in, put back 0, in x4",
    "put_back_last": "ann 4, bob 4 x2, in, read 0 2, put back 0, in x3",
    "cancelled": "ann 4 x3, cancel 1, in x3",
    "cancelled_unread": "ann 9 x2, bob 2 x2, cancel 0, in x3",
    "new_while_one_is_let_in": "ann 8 x3, in, bob 3 x4, in x6",
    # Ann's first has read its prompt and written a token: that is still to be read, and claimed.
    "written_and_unread": "ann 4 x2, in, read 0 4, bob 4, in x2",
}
known.probe_table(**{name: partial(played, script=script) for name, script in SCRIPTS.items()})


@known.probe()
def fair_refuses(program):
    made, found = program(), []
    for number, user in enumerate(("ann", "bob")):
        request = Request([1], 1, user=user, number=number)
        try:
            made.remove(request)
            found.append(0)
        except ValueError:
            found.append(1)
        made.add(Request([1], 1, user="bob", number=number + 5))
    return mx.array(found)


known.not_timed("a queue of a few dozen requests")

LEAST = "min((self.counters[one] for one in self._waiting), default=self.counters.get(self._last, 0))"
LIFT = "self.counters[user] = max(self.counters.get(user, 0), least)"
CLAIM = "(self._claim(one.user), one.number)"
SUM = "self.counters[user] + sum(request.unread for request in self._let_in if request.user == user)"
CHARGE = "self.counters[request.user] += tokens"
BACK = "self._waiting.setdefault(request.user, deque()).appendleft(request)"
known.change(
    "first-come-first-served",
    (CLAIM, "one.number"),
    fact="the oldest request is next, whoever has sent it",
    question="Ann sends twenty requests, then Bob sends one. How many of Ann's are served before it?",
)
known.change(
    "the-most-first",
    (CLAIM, "(-self._claim(one.user), one.number)"),
    fact="the user who has had the most tokens is next",
    question="Ann has had 1,000 tokens and Bob 10. Whose turn is it?",
)
known.change(
    "youngest-of-equals",
    (CLAIM, "(self._claim(one.user), -one.number)"),
    fact="of users with equal claims the one with the younger request is next",
    question="Ann and Bob have had nothing yet, and Ann came first. Whose turn is it?",
)
known.change(
    "ties-by-name",
    (CLAIM, "(self._claim(one.user), one.user)"),
    fact="of users with equal claims the one whose name comes first in the alphabet is next",
    question="Ann and Bob have had nothing yet, and Bob came first. Whose turn is it?",
)
known.change(
    "requests-counted",
    (CHARGE, "self.counters[request.user] += 1"),
    fact="each call counts as one, however many tokens were read",
    question="Ann's step has read 500 tokens of a prompt, Bob's a single one. Who has had more?",
)
known.change(
    "doubled",
    (CHARGE, "self.counters[request.user] += 2 * tokens"),
    fact="tokens count double",
    question="Four tokens of Ann's were read. How much higher is her counter?",
)
known.change(
    "never-charged",
    (CHARGE, "pass"),
    fact="nobody's counter ever goes up",
    question="Who tells the queue that tokens were read, and what does it do with that?",
)
known.change(
    "charged-to-the-last",
    (CHARGE, "self.counters[self._last] += tokens"),
    fact="tokens are charged to the user whose request was let in last, and not to the request's own",
    question="Ann and Bob run side by side. On whose counter do Ann's tokens belong?",
)
known.change(
    "charged-only-prompts",
    (CHARGE, "self.counters[request.user] += tokens * (not request.output)"),
    fact="tokens are charged as long as a request has no output, and then no more",
    question="A short prompt is followed by a long answer. What does the user pay for?",
)
known.change(
    "not-lifted",
    (LIFT, "self.counters.setdefault(user, 0)"),
    fact="a user who was away keeps the counter of before, and a new one begins at 0",
    question="Ann has been served for an hour. Bob comes and sends a hundred requests. How long does Ann wait?",
)
known.change(
    "only-new-users-lifted",
    ("if user not in self._waiting:", "if user not in self.counters:"),
    fact="a new user is lifted, and one who comes back is not",
    question="Bob had two tokens, went away for an hour, and comes back. What has he saved up?",
)
known.change(
    "lowered-too",
    (LIFT, "self.counters[user] = least"),
    fact="a user who comes back gets the lowest counter of the others, also where the own one is higher",
    question="Ann has had far more than all others, and is away for a moment. Is she forgiven?",
)
known.change(
    "lifted-on-top",
    (LIFT, "self.counters[user] = self.counters.get(user, 0) + least"),
    fact="the lowest counter is added to that of a user who comes back",
    question="Bob's counter is 5, and the lowest of those who wait is 20. Where does he begin?",
)
known.change(
    "lifted-to-the-highest",
    (LEAST, "max((self.counters[one] for one in self._waiting), default=self.counters.get(self._last, 0))"),
    fact="a user who comes back is lifted to the highest counter of those who wait",
    question="Ann has had 90 tokens, Bob 40. Cleo is new. Who of the three should be next?",
)
known.change(
    "lifted-to-anybody-s",
    (LEAST, "min(self.counters.values(), default=0)"),
    fact="a user who comes back is lifted to the lowest counter of all who were ever here",
    question="Somebody had three tokens last week. What does that say of who comes back now?",
)
known.change(
    "an-empty-queue-lifts-nobody",
    (LEAST, "min((self.counters[one] for one in self._waiting), default=0)"),
    fact="a new user begins at 0 where nobody waits, whatever has been served before",
    question="Ann has been served for an hour, and Bob comes while none of hers waits. Where does he begin?",
)
known.change(
    "counter-of-when-it-left",
    ('self._last = ""', "self._last = 0"),
    ("self.counters.get(self._last, 0)", "self._last"),
    ("self._last = request.user", "self._last = self.counters[request.user]"),
    fact="a user who comes while nobody waits is lifted to what the last to leave had on leaving, and not has now",
    question="Ann leaves the queue with 4 tokens, and 500 are read. Bob comes. Which of her two numbers counts?",
)
known.change(
    "lifted-to-the-lowest-if-empty",
    (LEAST, "min((self.counters[one] for one in self._waiting), default=min(self.counters.values(), default=0))"),
    fact="a user who comes while nobody waits is lifted to the lowest counter of all who were ever here",
    question="Somebody had three tokens last week, and nobody waits now. Where does a new user begin?",
)
known.change(
    "lifted-to-the-highest-if-empty",
    (LEAST, "min((self.counters[one] for one in self._waiting), default=max(self.counters.values(), default=0))"),
    fact="a user who comes back while nobody waits is lifted to the highest counter there is",
    question="Who left the queue last, and what is that user's counter?",
)
known.change(
    "claims-of-claims",
    (LEAST, "min((self._claim(one) for one in self._waiting), default=self.counters.get(self._last, 0))"),
    fact="a user who comes back is lifted to the lowest claim, and not to the lowest counter",
    question="Ann's first prompt was let in, and nothing of it is read. Has she had more than Bob, who is new?",
)
known.change(
    "nothing-claimed",
    (SUM, "self.counters[user]"),
    fact="what was let in does not count before it is read",
    question="Eight slots are free, and nothing has been read yet. Who gets the second, after Ann has got the first?",
)
known.change(
    "requests-claimed",
    (SUM, "self.counters[user] + sum(1 for request in self._let_in if request.user == user)"),
    fact="each request that was let in is claimed as one token, however long it is",
    question="Ann's request has 500 unread tokens, and Bob's two. Who claims more?",
)
known.change(
    "prompts-claimed-whole",
    (SUM, "self.counters[user] + sum(len(request.prompt) for request in self._let_in if request.user == user)"),
    fact="the whole prompt is claimed, also where a part of it is read and has been charged",
    question="Four of eight tokens were read, and charged. How many are still to come?",
)
known.change(
    "written-not-claimed",
    (SUM, SUM.replace("request.unread", "max(0, len(request.prompt) - request.read)")),
    fact="of what was let in the unread prompt is claimed, and not what was written and is unread",
    question="A prompt is read, and a token is written. How many tokens are there for the model to read?",
)
known.change(
    "finished-claims",
    ("[request for request in self._let_in if not request.finished]", "list(self._let_in)"),
    fact="requests that have ended, or were cancelled, are claimed for ever",
    question="A request was cancelled before anything of it was read. What will its user still have of it?",
)
known.change(
    "put-back-claims",
    ("self._let_in.remove(request)", "pass"),
    fact="one that was put back is still claimed, although it waits again",
    question="A request waits again. Is it among those that were let in?",
)
known.change(
    "put-back-last",
    (BACK, "self._waiting.setdefault(request.user, deque()).append(request)"),
    fact="one that is put back is the last one of its user",
    question="A request has been running, and was put back. Which of its user's requests came first?",
)
known.change(
    "put-back-lifted",
    (BACK, "self.add(request)\nself._waiting[request.user].rotate(1)"),
    fact="one that is put back lifts its user's counter, as if the user had been away",
    question="Who decided that this request must wait again: its user, or the scheduler?",
)
known.change(
    "counters-forgotten",
    ("del self._waiting[request.user]", "del self._waiting[request.user]\nself.counters[request.user] = 0"),
    fact="a user's counter is set to 0 when the last request of that user has left",
    question="Ann sends one request at a time, and each is let in at once. What does her counter ever come to?",
)
known.change(
    "empty-lines-stay",
    ("del self._waiting[request.user]", "pass"),
    fact="a user of whom nothing waits any more is still among those who wait",
    question="What is the first request of a user who has none?",
)
known.change(
    "newest-of-a-user",
    ("line[0] for line", "line[-1] for line"),
    fact="the newest request of a user is next",
    question="Ann sends three requests. Which of them has waited longest?",
)
known.change(
    "the-first-is-removed",
    ("line.remove(request)", "line.popleft()"),
    fact="the first request of the user is removed, whichever was meant",
    question="Ann cancels her second request. Which one leaves the queue?",
)
known.change(
    "another-error",
    ("self._waiting.get(request.user, deque())", "self._waiting[request.user]"),
    fact="to remove a request of a user of whom nothing waits raises another error than a ValueError",
    question="Which error does the docstring of remove promise?",
)
known.change(
    "users-counted",
    ("sum(map(len, self._waiting.values()))", "len(self._waiting)"),
    fact="the length is how many users wait, and not how many requests",
    question="Ann has three requests here. How long is the queue?",
)


@known.accepted("one-list")
class OneList:
    """All that wait in one list, and a claim that is kept up to date as things happen."""

    def __init__(self):
        self.counters, self.lines, self.inside, self.latest = defaultdict(int), [], set(), None

    def __len__(self):
        return len(self.lines)

    def add(self, request):
        others = {one.user for one in self.lines}
        if request.user not in others:
            start = self.counters[self.latest] if self.latest is not None else 0
            if others:
                start = min(self.counters[one] for one in others)
            self.counters[request.user] = max(start, self.counters[request.user])
        self.lines.append(request)

    def put_back(self, request):
        self.inside.discard(request)
        self.lines.insert(0, request)

    def next(self):
        claims = dict(self.counters)
        for one in self.inside:
            if not one.finished:
                claims[one.user] += one.unread
        seen, best = set(), None
        for one in self.lines:
            if one.user not in seen:
                seen.add(one.user)
                if best is None or (claims[one.user], one.number) < (claims[best.user], best.number):
                    best = one
        return best

    def remove(self, request):
        self.lines.remove(request)
        self.inside.add(request)
        self.latest = request.user

    def charge(self, request, tokens):
        self.counters[request.user] = self.counters[request.user] + tokens

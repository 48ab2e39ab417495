"""Known programs of task 3.2.2, the fair queue."""

from collections import defaultdict
from functools import partial

import mlx.core as mx
from tests.week3.fairness import Script, script_of
from tiny_llm_solution.serving.request import Request

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.2.2")


def played(program, script):
    """Return the order of admission, the number waiting after each line, and the final counters, by user name."""
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
        "ann 8 x3, bob 2 x6, in, run 0 8, finish 0, in, run 3 2, finish 3, in, run 4 2, run 4 1, finish 4, in, "
        "run 5 2, finish 5, in x3"
    ),
    "three_users": "ann 9 x2, bob 4 x3, in x2, run 0 9, run 2 4, finish 0, finish 2, cleo 2 x5, in x8",
    "back_with_more": "ann 9, bob 2, in x2, run 0 9, run 1 2, finish 0, finish 1, bob 2 x3, ann 2, in x4",
    "nobody_waits": "ann 6, in, run 0 6, finish 0, bob 2 x2, ann 2, in x3",
    # Ann leaves with 4 tokens, has 8 when the queue is empty, and Bob is new.
    "last_has_had_more_since": "ann 4, in, run 0 4, finish 0, ann 4, in, run 1 4, finish 1, bob 4, ann 4, in x2",
    "last_of_two": "ann 9, bob 3, in x2, run 0 9, run 1 3, finish 0, finish 1, cleo 2 x3, bob 1, ann 1, in x5",
    "put_back_poor": "ann 9 x2, bob 2, in x2, run 0 9, run 2 1, requeue 2, bob 2, in x3",
    # Cleo has had a token and is gone; Ann has had many, and waits; Bob is new.
    "somebody_long_ago": "cleo 1, in, run 0 1, finish 0, ann 8 x3, in, run 1 8, finish 1, bob 3 x4, in x6",
    # Bob has had two tokens and returns when Ann, who still waits, has had more.
    "back_with_less": "bob 2, in, run 0 2, finish 0, ann 8 x2, in, run 1 8, finish 1, bob 3 x3, in x4",
    # Bob is new when the queue is empty; Cleo has had little, and Ann was the last to leave.
    "back_to_an_empty_queue": "cleo 1, in, run 0 1, finish 0, ann 8, in, run 1 8, finish 1, bob 3, ann 2, in x2",
    "greedy": "ann 4 x6, bob 4, in x8",
    "one_user": "ann 4 x3, in x3",
    "ties": "bob 4, ann 4, bob 4, in x3",
    # Ann came first, but her first request is the younger one.
    "ties_of_a_younger_request": "ann 4, bob 4, ann 4, cancel 0, in x2",
    # Ann came first, left, and returns after Bob.
    "ties_of_a_user_who_was_here": "ann 4, cancel 0, bob 4, ann 4, in x2",
    # Ann, with 4 tokens and a claim of 5, waits again when Bob is new.
    "claims_of_a_waiting_user": "ann 4 x2, in, run 0 4, bob 2, in x2",
    # Ann, with 2 tokens and a claim of 6, was the last to leave when Bob is new.
    "claims_of_the_last": "ann 6, in, run 0 2, bob 2, ann 1, in x2",
    # Bob's request runs, but none waits, when Ann has had more.
    "back_while_one_runs": "bob 4, ann 9 x2, in x2, run 1 9, run 0 1, bob 2, in x2",
    "put_back_and_back": "ann 4 x2, bob 3 x3, in, run 0 1, requeue 0, in x5",
    "claims": "ann 5 x3, bob 2 x4, in x7",
    "half_read": "ann 8 x2, bob 3 x4, in, run 0 4, in x5",
    "finished": "ann 8 x2, bob 2 x2, in, run 0 1, finish 0, in x3",
    "new_user": "ann 4 x4, in, run 0 4, finish 0, bob 3 x3, in x6",
    "put_back": "ann 4 x3, in, run 0 4, requeue 0, in x3",
    "put_back_unread": "ann 4 x2, bob 4 x2, in, requeue 0, in x4",
    "put_back_last": "ann 4, bob 4 x2, in, run 0 2, requeue 0, in x3",
    "cancelled": "ann 4 x3, cancel 1, in x3",
    "cancelled_unread": "ann 9 x2, bob 2 x2, cancel 0, in x3",
    "new_while_one_is_let_in": "ann 8 x3, in, bob 3 x4, in x6",
    # Ann's first has computed its prompt and generated a token: that is uncomputed, and claimed.
    "written_and_unread": "ann 4 x2, in, run 0 4, bob 4, in x2",
}
known.probe_table(**{name: partial(played, script=script) for name, script in SCRIPTS.items()})


@known.probe()
def fair_refuses(program):
    made, found = program(), []
    for number, user in enumerate(("ann", "bob")):
        request = Request([1], 1, user=user, request_id=number)
        try:
            made.remove(request)
            found.append(0)
        except ValueError:
            found.append(1)
        made.add(Request([1], 1, user="bob", request_id=number + 5))
    for _ in range(2):
        one = made.peek()
        try:
            made.remove(one)
            made.remove(one)
            found.append(0)
        except ValueError:
            found.append(1)
    return mx.array(found)


known.not_timed("a queue of a few dozen requests")

LEAST = "min((self.counters[one] for one in self._waiting), default=self.counters.get(self._last, 0))"
LIFT = "self.counters[user] = max(self.counters.get(user, 0), least)"
CLAIM = "(self._claim(one.user), one.request_id)"
SUM = "self.counters[user] + sum(one.num_uncomputed_tokens for one in self._admitted if one.user == user)"
CHARGE = "self.counters[request.user] += tokens"
BACK = "self._waiting.setdefault(request.user, deque()).appendleft(request)"
known.change(
    "first-come-first-served",
    (CLAIM, "one.request_id"),
    fact="the oldest request is next, whichever user sent it",
    question="Ann sends twenty requests, then Bob sends one. How many of Ann's are served before his?",
)
known.change(
    "the-most-first",
    (CLAIM, "(-self._claim(one.user), one.request_id)"),
    fact="the user with the highest counter is next",
    question="Ann has had 1,000 tokens and Bob 10. Who is next?",
)
known.change(
    "youngest-of-equals",
    (CLAIM, "(self._claim(one.user), -one.request_id)"),
    fact="a tie goes to the user with the younger request",
    question="Ann and Bob have had nothing yet, and Ann came first. Who is next?",
)
known.change(
    "first-user-of-equals",
    (CLAIM, "self._claim(one.user)"),
    fact="a tie goes to the user who has been waiting longer, even if another user's first request is older",
    question="Ann and Bob have equal claims, and Ann's older request was cancelled. Whose first request is older now?",
)
known.change(
    "first-user-ever-of-equals",
    (
        "(line[0] for line in self._waiting.values()), key=lambda one: (self._claim(one.user), one.request_id)",
        "(self._waiting[user][0] for user in self.counters if user in self._waiting), "
        "key=lambda one: self._claim(one.user)",
    ),
    fact="a tie goes to the user who was seen first, even if another user's first request is older",
    question="Ann and Bob have equal claims, and Ann is back after an hour. Whose first request is older?",
)
known.change(
    "requests-counted",
    (CHARGE, "self.counters[request.user] += 1"),
    fact="each call of charge counts as one token",
    question="Ann's step computed 500 prompt tokens, Bob's a single one. Who has had more?",
)
known.change(
    "never-charged",
    (CHARGE, "pass"),
    fact="no counter ever rises",
    question="What tells the queue about computed tokens, and what does it do with the number?",
)
known.change(
    "charged-to-the-last",
    (CHARGE, "self.counters[self._last] += tokens"),
    fact="tokens are charged to the user whose request was admitted last, not to the request's user",
    question="Ann's and Bob's requests run together. Whose counter should Ann's tokens raise?",
)
known.change(
    "not-lifted",
    (LIFT, "self.counters.setdefault(user, 0)"),
    fact="a returning user keeps the old counter, and a new one starts at 0",
    question="Ann has been served for an hour. Bob arrives and sends a hundred requests. How long does Ann wait?",
)
known.change(
    "only-new-users-lifted",
    ("if user not in self._waiting:", "if user not in self.counters:"),
    fact="only a new user's counter is lifted, not a returning user's",
    question="Bob had two tokens, was idle for an hour, and returns. What credit has he?",
)
known.change(
    "lowered-too",
    (LIFT, "self.counters[user] = least"),
    fact="a returning user's counter is set to the others' lowest, even if it was higher",
    question="Ann has had far more than everyone else, and is idle for a moment. Is her debt cleared?",
)
known.change(
    "lifted-on-top",
    (LIFT, "self.counters[user] = self.counters.get(user, 0) + least"),
    fact="the lowest waiting counter is added to a returning user's own",
    question="Bob's counter is 5, and the lowest waiting one is 20. Where does he start?",
)
known.change(
    "lifted-to-the-highest",
    (LEAST, "max((self.counters[one] for one in self._waiting), default=self.counters.get(self._last, 0))"),
    fact="a returning user is lifted to the highest counter of the waiting users",
    question="Ann has had 90 tokens, Bob 40. Cleo is new. Who of the three should be next?",
)
known.change(
    "lifted-to-anybody-s",
    (LEAST, "min(self.counters.values(), default=0)"),
    fact="a returning user is lifted to the lowest counter of all users ever seen, waiting or not",
    question="One user had three tokens last week. What has that to do with a user who returns now?",
)
known.change(
    "lifted-to-the-lowest-claim",
    (
        LEAST,
        "min((self._claim(one) for one in self._waiting), default=self._claim(self._last) if self._last else 0)",
    ),
    fact="a returning user is lifted to a claim, not a counter: the lowest waiting one, or that of the last to leave",
    question="Ann has had 10 tokens, and one more of hers is uncomputed. What is her counter, and what is her claim?",
)
known.change(
    "lifted-to-the-waiting-users-lowest-claim",
    (LEAST, LEAST.replace("self.counters[one]", "self._claim(one)")),
    fact="a returning user is lifted to the lowest claim of the waiting users, not to their lowest counter",
    question="Ann waits, has had 10 tokens, and has an admitted request of 500. Should Bob start at 10 or at 510?",
)
known.change(
    "idle-if-none-runs",
    (
        "if user not in self._waiting:",
        "if user not in self._waiting and all(one.user != user or one.finish_reason for one in self._admitted):",
    ),
    fact="a user with an admitted request does not count as idle, so the counter is not lifted",
    question="Bob's only request has been running for an hour, and none waits. Is he idle, by the docstring of add?",
)
known.change(
    "empty-queue-starts-at-zero",
    (LEAST, "min((self.counters[one] for one in self._waiting), default=0)"),
    fact="a new user starts at 0 when the queue is empty, whatever has been served before",
    question="Ann has been served for an hour, and Bob arrives while none of her requests waits. Where does he start?",
)
known.change(
    "nothing-claimed",
    (SUM, "self.counters[user]"),
    fact="an admitted request does not count until it is computed",
    question="Eight slots are free, and nothing is computed yet. Ann gets the first slot. Who gets the second?",
)
known.change(
    "no-counters",
    (CHARGE, "pass"),
    (SUM, "self.counters[user]"),
    fact="no counter ever rises, and an admitted request does not count either: every user is always at 0",
    question="Ann has had 500 tokens, Bob none. By what does the queue know?",
)
known.together("never-charged", "nothing-claimed", makes="no-counters")
known.change(
    "requests-claimed",
    (SUM, "self.counters[user] + sum(1 for one in self._admitted if one.user == user)"),
    fact="each admitted request is claimed as one token, whatever its length",
    question="Ann's request has 500 uncomputed tokens, Bob's two. Whose claim is higher?",
)
known.change(
    "prompts-claimed-whole",
    (SUM, "self.counters[user] + sum(len(one.prompt) for one in self._admitted if one.user == user)"),
    fact="the whole prompt is claimed, including tokens that were computed and charged",
    question="Four of eight tokens were computed and charged. How many are still to come?",
)
known.change(
    "finished-claims",
    ("[request for request in self._admitted if not request.finish_reason]", "list(self._admitted)"),
    fact="finished and cancelled requests are claimed for ever",
    question="A request was cancelled before any of it was computed. What will its user still get from it?",
)
known.change(
    "put-back-claims",
    ("self._admitted.remove(request)", "pass"),
    fact="a preempted request is still claimed, although it waits again, and twice once it is admitted again",
    question="A request waits again. Is it still admitted?",
)
known.change(
    "put-back-claims-once",
    ("self._admitted.remove(request)", "pass"),
    ("self._admitted.append(request)", "if request not in self._admitted:\n    self._admitted.append(request)"),
    fact="a preempted request is still claimed, although it waits again",
    question="A request waits again. Is it still admitted?",
)
known.change(
    "put-back-last",
    (BACK, "self._waiting.setdefault(request.user, deque()).append(request)"),
    fact="a preempted request goes to the back of its user's queue",
    question="A running request was preempted. Which of its user's requests arrived first?",
)
known.change(
    "put-back-lifted",
    (BACK, "self.add(request)\nself._waiting[request.user].rotate(1)"),
    fact="requeuing a preempted request lifts its user's counter, as if the user had been idle",
    question="Who decided that this request must wait again: its user, or the scheduler?",
)
known.change(
    "counters-forgotten",
    ("del self._waiting[request.user]", "del self._waiting[request.user]\nself.counters[request.user] = 0"),
    fact="a user's counter is reset to 0 when the user's last request leaves the queue",
    question="Ann sends one request at a time, and each is admitted at once. How high can her counter get?",
)
known.change(
    "empty-lines-stay",
    ("del self._waiting[request.user]", "pass"),
    fact="a user with no waiting request still counts as waiting",
    question="What is the first request of a user who has none?",
)
known.change(
    "newest-of-a-user",
    ("line[0] for line", "line[-1] for line"),
    fact="a user's newest request is next",
    question="Ann sends three requests. Which one has waited longest?",
)
known.change(
    "the-first-is-removed",
    ("line.remove(request)", "line.popleft()"),
    fact="remove always removes the user's first request",
    question="Ann cancels her second request. Which one leaves the queue?",
)
known.change(
    "others-of-the-user-are-enough",
    (
        "line.remove(request)",
        "if not line:\n    raise ValueError\nif request in line:\n    line.remove(request)",
    ),
    fact="remove raises no ValueError for a request that is not here if another one of its user waits",
    question="A request is removed twice, and its user has another one. What does the docstring promise?",
)
known.change(
    "another-error",
    ("self._waiting.get(request.user, deque())", "self._waiting[request.user]"),
    fact="remove does not raise ValueError for a user without waiting requests",
    question="Which error does the docstring of remove promise?",
)


@known.accepted("one-list")
class OneList:
    """All waiting requests in one list, and a claim that is updated incrementally."""

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

    def requeue(self, request):
        self.inside.discard(request)
        self.lines.insert(0, request)

    def peek(self):
        claims = dict(self.counters)
        for one in self.inside:
            if not one.finish_reason:
                claims[one.user] += one.num_uncomputed_tokens
        seen, best = set(), None
        for one in self.lines:
            if one.user not in seen:
                seen.add(one.user)
                if best is None or (claims[one.user], one.request_id) < (claims[best.user], best.request_id):
                    best = one
        return best

    def remove(self, request):
        self.lines.remove(request)
        self.inside.add(request)
        self.latest = request.user

    def charge(self, request, tokens):
        self.counters[request.user] = self.counters[request.user] + tokens

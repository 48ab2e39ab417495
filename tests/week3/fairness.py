"""Scripts of queue calls, and the fair queue's rules implemented once more, as plainly as possible."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class PlainRequest:
    """The part of a request that a queue uses."""

    prompt: list[int]
    max_tokens: int
    user: str
    request_id: int
    output: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    finish_reason: str = ""

    @property
    def num_tokens(self):
        return len(self.prompt) + len(self.output)

    @property
    def num_uncomputed_tokens(self):
        return self.num_tokens - self.num_computed_tokens


class Script:
    """Replays calls on a queue and records their results.

    A line is a tuple: ("come", user, prompt) · ("admit",) · ("run", number, tokens) ·
    ("requeue", number) · ("finish", number) · ("cancel", number). Requests are numbered in order of arrival.
    """

    def __init__(self, queue, kind):
        self.queue, self.kind, self.requests, self.told = queue, kind, [], []

    def play(self, *lines):
        """The numbers of the admitted requests (-1: the queue was empty)."""
        for what, *more in lines:
            getattr(self, what)(*more)
        return self.told

    def come(self, user, prompt=4):
        """A request arrives."""
        request = self.kind([1] * prompt, 100, user=user, request_id=len(self.requests))
        self.requests.append(request)
        self.queue.add(request)

    def admit(self):
        """Peek at the next request twice, then admit it."""
        if not len(self.queue):
            self.told.append(-1)
            return
        self.queue.peek()
        request = self.queue.peek()
        self.queue.remove(request)
        self.told.append(request.request_id)

    def run(self, number, tokens):
        """Compute some tokens; the last uncomputed one generates a new token."""
        request = self.requests[number]
        request.num_computed_tokens += tokens
        self.queue.charge(request, tokens)
        if request.num_computed_tokens == request.num_tokens:
            request.output.append(2)

    def requeue(self, number):
        """Preempt the request; not one that a wrong queue has never admitted."""
        if number in self.told:
            self.requests[number].num_computed_tokens = 0
            self.queue.requeue(self.requests[number])

    def finish(self, number):
        """Finish the request."""
        self.requests[number].finish_reason = "length"

    def cancel(self, number):
        """Cancel the waiting request."""
        self.queue.remove(self.requests[number])
        self.requests[number].finish_reason = "cancelled"


def script_of(text):
    """Return the lines of a script in short: "ann 8 x3, bob, in, run 0 4, requeue 0, finish 0, cancel 1".

    A user's name, optionally with a prompt length, is an arrival; "in" is "admit"; "x3" repeats it.
    """
    lines = []
    for item in text.split(", "):
        words, _, times = item.partition(" x")
        numbers = [int(word) for word in words.split() if word.isdigit()]
        what = " ".join(word for word in words.split() if not word.isdigit())
        if what == "in":
            line = ("admit",)
        elif what in ("run", "requeue", "finish", "cancel"):
            line = (what, *numbers)
        else:
            line = ("come", what, *numbers)
        lines += [line] * int(times or 1)
    return lines


class PlainRules:
    """The fair queue as a log of events: every question replays all of it."""

    def __init__(self):
        self.counters, self.lines, self.away, self.left = {}, [], [], None

    def __len__(self):
        return len(self.lines)

    def add(self, request):
        present = {one.user for one in self.lines}
        mine = self.counters.setdefault(request.user, 0)
        if request.user not in present:
            floor = [self.counters[user] for user in present]
            if not floor and self.left is not None:
                floor = [self.counters[self.left]]
            if floor and mine < min(floor):
                self.counters[request.user] = min(floor)
        self.lines.append(request)

    def requeue(self, request):
        self.away = [one for one in self.away if one is not request]
        self.lines.insert(0, request)

    def peek(self):
        def claim(user):
            promised = [
                one.num_tokens - one.num_computed_tokens
                for one in self.away
                if one.user == user and one.finish_reason == ""
            ]
            return self.counters[user] + sum(promised)

        firsts = {}
        for one in self.lines:
            firsts.setdefault(one.user, one)
        return sorted(firsts.values(), key=lambda one: (claim(one.user), one.request_id))[0]

    def remove(self, request):
        if all(one is not request for one in self.lines):
            raise ValueError("not here")
        self.lines = [one for one in self.lines if one is not request]
        self.away.append(request)
        self.left = request.user

    def charge(self, request, tokens):
        self.counters[request.user] += tokens


def random_script(generator, length, users=3):
    """Draw a script whose lines are all valid, by the plain rules."""
    script, lines = Script(PlainRules(), PlainRequest), []
    while len(lines) < length:
        inside = [one.request_id for one in script.queue.away if not one.finish_reason]
        waiting = [one.request_id for one in script.queue.lines]
        what = ("come", "come", "admit", "admit", "run", "run", "run", "finish", "requeue", "cancel")[
            int(generator.integers(10))
        ]
        if what == "come":
            line = (what, f"user {int(generator.integers(users))}", int(generator.integers(1, 9)))
        elif what == "admit":
            line = (what,)
        elif what == "cancel":
            if not waiting or generator.integers(3):
                continue
            line = (what, int(generator.choice(waiting)))
        else:
            if not inside:
                continue
            number = int(generator.choice(inside))
            line = (what, number)
            if what == "run":
                request = script.requests[number]
                line = (what, number, int(generator.integers(1, request.num_uncomputed_tokens + 1)))
            elif what == "requeue" and number != max(inside):
                continue
        script.play(line)
        lines.append(line)
    return lines


def in_words(lines, most=14):
    """Return the end of a script, in one line."""
    told = [" ".join(str(part) for part in line) for line in lines]
    return ", ".join((["..."] if len(told) > most else []) + told[-most:])

"""Scripts of what happens to a queue, and the rules of the fair one written down once more, without any cleverness."""

from dataclasses import dataclass, field


@dataclass(eq=False)
class PlainRequest:
    """What a queue sees of a request."""

    prompt: list[int]
    max_tokens: int
    user: str
    number: int
    output: list[int] = field(default_factory=list)
    read: int = 0
    finished: str = ""

    @property
    def length(self):
        return len(self.prompt) + len(self.output)

    @property
    def unread(self):
        return self.length - self.read


class Script:
    """Plays calls on a queue, and writes down what came of each.

    A line is (what, whom or a number, ...): ("come", user, prompt) · ("let in",) · ("read", number, tokens) ·
    ("put back", number) · ("finish", number) · ("cancel", number). A request is known by its number, in the order in
    which they came.
    """

    def __init__(self, queue, kind):
        self.queue, self.kind, self.requests, self.told = queue, kind, [], []

    def play(self, *lines):
        """What came of them: the numbers of those who were let in (-1: nobody waits)."""
        for what, *more in lines:
            getattr(self, what.replace(" ", "_"))(*more)
        return self.told

    def come(self, user, prompt=4):
        """A new one."""
        request = self.kind([1] * prompt, 100, user=user, number=len(self.requests))
        self.requests.append(request)
        self.queue.add(request)

    def let_in(self):
        """The next one is asked for, twice, and leaves."""
        if not len(self.queue):
            self.told.append(-1)
            return
        self.queue.next()
        request = self.queue.next()
        self.queue.remove(request)
        self.told.append(request.number)

    def read(self, number, tokens):
        """It reads some tokens; if these were all, a new one is there."""
        request = self.requests[number]
        request.read += tokens
        self.queue.charge(request, tokens)
        if request.read == request.length:
            request.output.append(2)

    def put_back(self, number):
        """It must wait again."""
        self.requests[number].read = 0
        self.queue.put_back(self.requests[number])

    def finish(self, number):
        """It has ended."""
        self.requests[number].finished = "length"

    def cancel(self, number):
        """It ends while it waits."""
        self.queue.remove(self.requests[number])
        self.requests[number].finished = "cancelled"


def script_of(text):
    """Return the lines of a script in short: "ann 8 x3, bob, in, read 0 4, put back 0, finish 0, cancel 1".

    A user's name, with the tokens of a prompt or without, is a request that comes; "in" is "let in"; "x3" repeats it.
    """
    lines = []
    for item in text.split(", "):
        words, _, times = item.partition(" x")
        numbers = [int(word) for word in words.split() if word.isdigit()]
        what = " ".join(word for word in words.split() if not word.isdigit())
        if what == "in":
            line = ("let in",)
        elif what in ("read", "put back", "finish", "cancel"):
            line = (what, *numbers)
        else:
            line = ("come", what, *numbers)
        lines += [line] * int(times or 1)
    return lines


class PlainRules:
    """The fair queue from a diary: whoever asks goes through all of it."""

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

    def put_back(self, request):
        self.away = [one for one in self.away if one is not request]
        self.lines.insert(0, request)

    def next(self):
        def claim(user):
            promised = [one.length - one.read for one in self.away if one.user == user and one.finished == ""]
            return self.counters[user] + sum(promised)

        firsts = {}
        for one in self.lines:
            firsts.setdefault(one.user, one)
        return sorted(firsts.values(), key=lambda one: (claim(one.user), one.number))[0]

    def remove(self, request):
        if all(one is not request for one in self.lines):
            raise ValueError("not here")
        self.lines = [one for one in self.lines if one is not request]
        self.away.append(request)
        self.left = request.user

    def charge(self, request, tokens):
        self.counters[request.user] += tokens


def random_script(generator, length, users=3):
    """Lines of which each can be played where it stands, by the plain rules."""
    script, lines = Script(PlainRules(), PlainRequest), []
    while len(lines) < length:
        inside = [one.number for one in script.queue.away if not one.finished]
        waiting = [one.number for one in script.queue.lines]
        what = ("come", "come", "let in", "let in", "read", "read", "read", "finish", "put back", "cancel")[
            int(generator.integers(10))
        ]
        if what == "come":
            line = (what, f"user {int(generator.integers(users))}", int(generator.integers(1, 9)))
        elif what == "let in":
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
            if what == "read":
                request = script.requests[number]
                line = (what, number, int(generator.integers(1, request.unread + 1)))
            elif what == "put back" and number != max(inside):
                continue
        script.play(line)
        lines.append(line)
    return lines


def in_words(lines, most=14):
    """The end of a script, in a line."""
    told = [" ".join(str(part) for part in line) for line in lines]
    return ", ".join((["..."] if len(told) > most else []) + told[-most:])

"""What a memory with a prefix cache should do, without edges, and with pages that are counted and have no places."""

from collections import Counter

from tests.week3.prefixes import Beginnings


class Remembering:
    """As `PrefixMemory`, of requests that somebody else moves on."""

    def __init__(self, page, pages):
        self.page, self.pages = page, pages
        self.known, self.tables, self.holders = Beginnings(page), {}, Counter()
        self.asked = self.hit = self._numbers = 0

    @property
    def free(self):
        return self.pages - sum(count > 0 for count in self.holders.values())

    def begin(self, request):
        for other in self.tables:
            self._share(other)
        found = self.known.match(request.tokens(0, request.length - 1))
        self.holders.update(found)
        needed = self._pages_for(request.length) - len(found)
        if not self._make_free(needed + len(self.tables)):
            self.holders.subtract(found)
            return False, 0
        self.tables[request] = found + self._take(needed)
        self.asked += request.length
        self.hit += len(found) * self.page
        return True, len(found) * self.page

    def reserve(self, request, count):
        lacking = self._pages_for(request.read + count) - len(self.tables[request])
        if lacking > 0:
            if not self._make_free(lacking):
                return False
            self.tables[request] += self._take(lacking)
        return True

    def release(self, request):
        self._share(request)
        self.holders.subtract(self.tables.pop(request))

    def _share(self, request):
        table, whole = self.tables[request], request.read // self.page
        before = set(self.known.pages.values())
        found = self.known.insert(request.tokens(0, whole * self.page), table[:whole])
        self.holders.update([page for page in found if page not in before])
        self.holders.update(found)
        self.holders.subtract(table[:whole])
        table[:whole] = found

    def _make_free(self, count):
        self.holders.subtract(self.known.evict(count - self.free, lambda page: self.holders[page]))
        return self.free >= count

    def _take(self, count):
        taken = list(range(self._numbers, self._numbers + count))
        self._numbers += count
        self.holders.update(taken)
        return taken

    def _pages_for(self, tokens):
        return -(-tokens // self.page)


class Contents:
    """What is written in pages: of each place, the text up to the token whose keys and values are there."""

    def __init__(self, page):
        self.page, self.places = page, {}

    def write(self, table, request, start, end):
        for at in range(start, end):
            self.places[table[at // self.page], at % self.page] = request.tokens(0, at + 1)

    def wrong(self, table, request, end):
        """The first position at which something else is written than the request's own text; None if all is right."""
        for at in range(end):
            if self.places.get((table[at // self.page], at % self.page)) != request.tokens(0, at + 1):
                return at
        return None

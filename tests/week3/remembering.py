"""A prefix cache without nodes, whose pages are only counted."""

from collections import Counter

from tests.week3.prefixes import Beginnings


class Remembering:
    """The same as `PrefixKVCache`, for requests that the caller advances."""

    def __init__(self, page, pages):
        self.page_size, self.pages = page, pages
        self.known, self.block_tables, self.holders = Beginnings(page), {}, Counter()
        self.queried_tokens = self.hit_tokens = self._numbers = 0

    @property
    def free(self):
        return self.pages - sum(count > 0 for count in self.holders.values())

    def admit(self, request):
        for other in self.block_tables:
            self._share(other)
        found = self.known.match(request.tokens(0, request.num_tokens - 1))
        self.holders.update(found)
        needed = self._pages_for(request.num_tokens) - len(found)
        if not self._make_free(needed + len(self.block_tables)):
            self.holders.subtract(found)
            return False, 0
        self.block_tables[request] = found + self._take(needed)
        self.queried_tokens += request.num_tokens
        self.hit_tokens += len(found) * self.page_size
        return True, len(found) * self.page_size

    def reserve(self, request, count):
        lacking = self._pages_for(request.num_computed_tokens + count) - len(self.block_tables[request])
        if lacking > 0:
            if not self._make_free(lacking):
                return False
            self.block_tables[request] += self._take(lacking)
        return True

    def release(self, request):
        self._share(request)
        self.holders.subtract(self.block_tables.pop(request))

    def _share(self, request):
        table, whole = self.block_tables[request], request.num_computed_tokens // self.page_size
        before = set(self.known.pages.values())
        found = self.known.insert(request.tokens(0, whole * self.page_size), table[:whole])
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
        return -(-tokens // self.page_size)


class Contents:
    """The contents of pages: for each slot, the sequence up to the token whose keys and values it holds."""

    def __init__(self, page):
        self.page_size, self.places = page, {}

    def write(self, table, request, start, end):
        for at in range(start, end):
            self.places[table[at // self.page_size], at % self.page_size] = request.tokens(0, at + 1)

    def wrong(self, table, request, end):
        """Return the first position whose slot does not hold the request's own prefix, or None."""
        for at in range(end):
            if self.places.get((table[at // self.page_size], at % self.page_size)) != request.tokens(0, at + 1):
                return at
        return None

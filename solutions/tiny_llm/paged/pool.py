"""Who holds which page. Of what is in them, nothing is known here."""

import heapq
from collections import Counter
from collections.abc import Iterable


class OutOfPages(ValueError):
    """More pages were asked for than are free."""


class PagePool:
    """Pages by number, each with a count of those who hold it. One that nobody holds is free."""

    pages: int

    def __init__(self, pages: int) -> None:
        """Begin with all pages free.

        Args:
            pages: how many there are. Their numbers are 0 to pages - 1.
        """
        self.pages = pages
        self._holders = [0] * pages
        self._free = list(range(pages))  # a heap: the lowest number comes first

    @property
    def free(self) -> int:
        """How many pages nobody holds."""
        return len(self._free)

    def holders(self, page: int) -> int:
        """How many hold a page."""
        return self._holders[page]

    def take(self, count: int) -> list[int]:
        """Take free pages, each of which has one holder then.

        Args:
            count: how many.

        Returns:
            The lowest numbers of all that are free, in ascending order.

        Raises:
            OutOfPages: fewer are free; the message says both numbers. Nothing has changed.
        """
        if count > self.free:
            raise OutOfPages(f"{count} pages are needed, but {self.free} of {self.pages} are free")
        taken = [heapq.heappop(self._free) for _ in range(count)]
        for page in taken:
            self._holders[page] = 1
        return taken

    def hold(self, pages: Iterable[int]) -> None:
        """Count one holder more for each page.

        Args:
            pages: their numbers. One that stands there twice gets two.

        Raises:
            ValueError: nobody holds one of them; the message names it. Nothing has changed.
        """
        pages = list(pages)
        for page in pages:
            if not self._holders[page]:
                raise ValueError(f"page {page} is free: it must be taken before it can be shared")
        for page in pages:
            self._holders[page] += 1

    def drop(self, pages: Iterable[int]) -> None:
        """Count one holder fewer for each page. Those that nobody holds any more are free.

        Args:
            pages: their numbers. One that stands there twice loses two.

        Raises:
            ValueError: one of them has fewer holders than are dropped; the message names it. Nothing has changed.
        """
        dropped = Counter(pages)
        for page, count in dropped.items():
            if count > self._holders[page]:
                raise ValueError(f"page {page} is dropped {count} times, but {self._holders[page]} hold it")
        for page, count in dropped.items():
            self._holders[page] -= count
            if not self._holders[page]:
                heapq.heappush(self._free, page)

"""Page reference counts; the contents live in `Storage`."""

import heapq
from collections import Counter
from collections.abc import Iterable


class OutOfPages(ValueError):
    """Raised when more pages are requested than are free."""


class PagePool:
    """Allocates pages by number and counts the references to each. A page with a reference count of 0 is free."""

    pages: int

    def __init__(self, pages: int) -> None:
        """Create a pool in which all pages are free.

        Args:
            pages: how many there are, numbered 0 to pages - 1.
        """
        self.pages = pages
        self._ref_counts = [0] * pages
        self._free = list(range(pages))  # a heap: the lowest number comes first

    @property
    def num_free(self) -> int:
        """The number of free pages."""
        return len(self._free)

    def ref_count(self, page: int) -> int:
        """Return a page's reference count."""
        return self._ref_counts[page]

    def allocate(self, count: int) -> list[int]:
        """Allocate `count` free pages, with a reference count of 1 each.

        Returns:
            The lowest free page numbers, in ascending order.

        Raises:
            OutOfPages: fewer are free; the message gives both numbers. Nothing has changed.
        """
        if count > self.num_free:
            raise OutOfPages(f"{count} pages are needed, but {self.num_free} of {self.pages} are free")
        taken = [heapq.heappop(self._free) for _ in range(count)]
        for page in taken:
            self._ref_counts[page] = 1
        return taken

    def retain(self, pages: Iterable[int]) -> None:
        """Add one to the reference count of each page.

        Args:
            pages: their numbers. A number that occurs twice counts twice.

        Raises:
            ValueError: one of them is free; the message names it. Nothing has changed.
        """
        pages = list(pages)
        for page in pages:
            if not self._ref_counts[page]:
                raise ValueError(f"page {page} is free: it must be allocated before it can be shared")
        for page in pages:
            self._ref_counts[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """Subtract one from the reference count of each page. A page whose count reaches 0 is free.

        Args:
            pages: their numbers. A number that occurs twice counts twice.

        Raises:
            ValueError: one of them is listed more often than its reference count; the message names it. Nothing has
                changed.
        """
        dropped = Counter(pages)
        for page, count in dropped.items():
            if count > self._ref_counts[page]:
                raise ValueError(f"page {page}: {count} releases, but a reference count of {self._ref_counts[page]}")
        for page, count in dropped.items():
            self._ref_counts[page] -= count
            if not self._ref_counts[page]:
                heapq.heappush(self._free, page)

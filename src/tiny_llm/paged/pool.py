"""Page reference counts; the contents live in `Storage`."""

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
        raise NotImplementedError("3.3.1 The page pool")

    @property
    def num_free(self) -> int:
        """The number of free pages."""
        raise NotImplementedError("3.3.1 The page pool")

    def ref_count(self, page: int) -> int:
        """Return a page's reference count."""
        raise NotImplementedError("3.3.1 The page pool")

    def allocate(self, count: int) -> list[int]:
        """Allocate `count` free pages, with a reference count of 1 each.

        Returns:
            The lowest free page numbers, in ascending order.

        Raises:
            OutOfPages: fewer are free; the message gives both numbers. Nothing has changed.
        """
        raise NotImplementedError("3.3.1 The page pool")

    def retain(self, pages: Iterable[int]) -> None:
        """Add one to the reference count of each page.

        Args:
            pages: their numbers. A number that occurs twice counts twice.

        Raises:
            ValueError: one of them is free; the message names it. Nothing has changed.
        """
        raise NotImplementedError("3.3.1 The page pool")

    def release(self, pages: Iterable[int]) -> None:
        """Subtract one from the reference count of each page. A page whose count reaches 0 is free.

        Args:
            pages: their numbers. A number that occurs twice counts twice.

        Raises:
            ValueError: one of them is listed more often than its reference count; the message names it. Nothing has
                changed.
        """
        raise NotImplementedError("3.3.1 The page pool")

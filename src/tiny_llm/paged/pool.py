"""Who holds which page. Of what is in them, nothing is known here."""

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
        raise NotImplementedError("3.3.1 The page pool")

    @property
    def free(self) -> int:
        """How many pages nobody holds."""
        raise NotImplementedError("3.3.1 The page pool")

    def holders(self, page: int) -> int:
        """How many hold a page."""
        raise NotImplementedError("3.3.1 The page pool")

    def take(self, count: int) -> list[int]:
        """Take free pages, each of which has one holder then.

        Args:
            count: how many.

        Returns:
            The lowest numbers of all that are free, in ascending order.

        Raises:
            OutOfPages: fewer are free; the message says both numbers. Nothing has changed.
        """
        raise NotImplementedError("3.3.1 The page pool")

    def hold(self, pages: Iterable[int]) -> None:
        """Count one holder more for each page.

        Args:
            pages: their numbers. One that stands there twice gets two.

        Raises:
            ValueError: nobody holds one of them; the message names it. Nothing has changed.
        """
        raise NotImplementedError("3.3.1 The page pool")

    def drop(self, pages: Iterable[int]) -> None:
        """Count one holder fewer for each page. Those that nobody holds any more are free.

        Args:
            pages: their numbers. One that stands there twice loses two.

        Raises:
            ValueError: one of them has fewer holders than are dropped; the message names it. Nothing has changed.
        """
        raise NotImplementedError("3.3.1 The page pool")

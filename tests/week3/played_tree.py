"""A radix tree beside a dictionary: every operation runs on both, and the results are compared."""

import copy

from tests.week3.prefixes import Beginnings, edges_of, told

from tiny_llm.paged import pool
from tiny_llm.prefix import eviction, tree
from tiny_llm.prefix.node import descendants
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail

# `That is a blue dog` and sequences with common prefixes, each token a number
THAT, IS, A, BLUE, DOG, RED, CAT = range(1, 8)
BLUE_DOG = [THAT, IS, A, BLUE, DOG]


def parting(expected, actual):
    """Return the lines in which two lists differ, at most three of each."""
    wanted = [line for line in expected if line not in actual][:3] or ["no others"]
    got = [line for line in actual if line not in expected][:3] or ["no others"]
    return [*(f"expected  {line}" for line in wanted), *(f"got       {line}" for line in got)]


class Played:
    """A tree beside a dictionary: every operation runs on both, and the results are compared."""

    def __init__(self, page=2, pages=60, swept=False):
        self.pool = pool.PagePool(pages)
        self.tree = tree.RadixTree(self.pool, page)
        self.known, self.page_size, self.moves, self.swept = Beginnings(page), page, [f"page {page}"], swept
        self.held = []  # by another owner
        self.check()

    @property
    def case(self):
        told = ", ".join(self.moves)
        return told if len(told) <= 300 else f"{self.moves[0]}, .. {told[-280:]}"

    def fail(self, kind, headline, *lines):
        fail(kind, headline, self.case, *lines, size=len(self.case), swept=self.swept)

    def move(self, name, tokens, *more):
        self.moves.append(f"{name} [{' '.join(map(str, tokens))}]{''.join(more)}")

    def insert(self, *tokens, pages=None, like=list):
        """Insert a sequence that was computed into other pages, which are then released."""
        tokens = [*tokens]
        own = self.pool.allocate(len(tokens) // self.page_size) if pages is None else pages
        self.move("insert", tokens, f" in pages {own}", "" if like is list else f", each a {like.__name__}")
        given = (tokens, own) if like is list else (like(tokens), like(own))
        before = copy.deepcopy(given)
        with noted(self.case):
            found = self.tree.insert(*given)
        if given != before:
            self.fail(Kind.INPUT_CHANGED, "the caller's list was changed")
        expected = self.known.insert(tokens, own)
        self.same_pages(found, expected)
        tokens.clear()  # a node that keeps the caller's list now has an empty one
        self.pool.release(own)
        own.clear()
        found.clear()
        self.check()

    def match(self, *tokens, like=list):
        self.move("match", tokens)
        tokens = like(tokens)
        with noted(self.case):
            found = self.tree.match(tokens)
        expected = self.known.match(tokens)
        self.same_pages(found, expected)
        found.clear()
        self.check()
        return expected

    def hold(self, *tokens, among=slice(None)):
        """Match a sequence, and retain some of its pages."""
        held = self.match(*tokens)[among]
        self.moves.append(f"hold {held}")
        self.pool.retain(held)
        self.held += held

    def evict(self, count):
        self.moves.append(f"evict {count}")
        expected = self.known.evict(count, self.pool.ref_count)
        with noted(self.case):
            gone = eviction.evict(self.tree, count)
        self.same_pages(gone, expected)
        self.check()

    def made_of_lists(self):
        """Check that every node stores its tokens and pages in lists."""
        for _, node in descendants(self.tree.root):
            for name in ("tokens", "pages"):
                if type(held := getattr(node, name, None)) is not list:
                    self.fail(Kind.TYPE, f"the {name} of a node are {type_words(held)}, expected a list")

    def same_pages(self, found, expected):
        if type(found) is not list:
            self.fail(Kind.TYPE, f"got {type_words(found)}, expected a list")
        if found != expected:
            self.fail(Kind.VALUES, "wrong pages", f"expected  {expected}", f"got       {found}")

    def check(self):
        """Check the nodes and all reference counts."""
        if getattr(self.tree, "pool", None) is not self.pool:
            self.fail(Kind.VALUES, "the tree's `pool` is not the one that was passed in")
        with noted(self.case):
            try:
                edges = edges_of(self.tree)
            except (ValueError, TypeError, AttributeError) as error:
                self.fail(Kind.VALUES, f"the tree is not valid: {error}")
        wanted, got = told(self.known.edges()), told(edges)
        if wanted != got:
            self.fail(Kind.VALUES, "wrong nodes", *parting(wanted, got))
        calls = getattr(self.tree, "clock", None)
        if calls != self.known.calls:
            self.fail(Kind.VALUES, "wrong `clock`", f"expected  {self.known.calls}", f"got       {calls}")
        holders = [self.pool.ref_count(page) for page in range(self.pool.pages)]
        expected = [0] * self.pool.pages
        for page in [*self.known.pages.values(), *self.held]:
            expected[page] += 1
        if holders != expected:
            page = next(page for page, pair in enumerate(zip(holders, expected, strict=True)) if pair[0] != pair[1])
            told_of = f"page {page} has reference count {holders[page]}, expected {expected[page]}"
            self.fail(Kind.VALUES, told_of, "the tree holds each of its pages once, besides those who retained them")


def texts_of(generator, count, longest, alphabet):
    """Draw short sequences that may share prefixes."""
    found = [[]]
    for _ in range(count):
        earlier = found[generator.integers(len(found))]
        kept = earlier[: generator.integers(len(earlier) + 1)]
        found.append(kept + generator.integers(0, alphabet, generator.integers(0, longest + 1)).tolist())
    return found[1:]

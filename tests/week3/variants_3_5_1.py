"""Known programs of task 3.5.1, the radix tree."""

import mlx.core as mx
from tests.week3.prefixes import edges_of, numbers
from tiny_llm_solution.paged.pool import PagePool
from tiny_llm_solution.prefix.edge import Edge, below

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.5.1")


def played(program, *moves, page=2):
    """What comes of inserting, "+", and finding, "?", some texts, each by somebody who drops what he has read."""
    pool, found = PagePool(40), []
    tree = program(pool, page)
    for what, *text in moves:
        tokens = [int(token) for token in text]
        if what == "+":
            own = pool.take(len(tokens) // page)
            found += [-1, *tree.insert(tokens, own)]
            pool.drop(own)
        else:
            found += [-2, *tree.match(tokens)]
    found += [-3, tree.calls, *numbers(edges_of(tree)), -4, *(pool.holders(page) for page in range(pool.pages))]
    return mx.array(found)


@known.probe()
def tree_of_its_own_pages(program):
    pool = PagePool(9)
    tree = program(pool, 2)
    own = pool.take(2)
    first, second = tree.insert([1, 2, 3, 4], own), tree.insert([1, 2, 3, 4], own)
    return mx.array([*first, *second, *(pool.holders(page) for page in own)])


known.probe_table(
    of_one_text=lambda program: played(program, "+1234", "?12345", "?1234", "?56"),
    finds_whole_pages=lambda program: played(program, ("+", *range(6)), ("?", 0, 1, 2, 3, 4), ("?", 0, 1, 2, 9)),
    parts_within_a_page=lambda program: played(program, "+1234", "+1534", "?15349"),
    parts_at_a_page=lambda program: played(program, "+12345678", "+12340078", "?123400", "?12345678"),
    is_cut_by_match=lambda program: played(program, "+12345678", "?1234", "?1234567899"),
    is_cut_twice=lambda program: played(program, "+12345678", "+12345600", "+12000000", "?12345678", "?12345600"),
    grows=lambda program: played(program, "+12", "+1234", "+12345678", "?123456"),
    keeps_one_of_two=lambda program: played(program, "+1234", "+1234", "+123456"),
    of_nothing=lambda program: played(program, "?", "+", "?12", "+"),
    of_single_tokens=lambda program: played(program, "+1234", "+1244", "?123", "?1", page=1),
)


@known.probe()
def tree_refuses(program):
    pool, found = PagePool(9), []
    tree = program(pool, 2)
    tree.insert([1, 2], pool.take(1))
    for count, pages in ((5, 2), (3, 2), (4, 1)):
        own = pool.take(pages)
        try:
            tree.insert([1, 2, 3, 4, 5][:count], own)
            found.append(0)
        except ValueError:
            found.append(1)
        pool.drop(own)
        found += [tree.calls, pool.free]
    return mx.array(found)


@known.probe()
def tree_and_the_caller_s_lists(program):
    """All lists are emptied once they have been handed over."""
    pool = PagePool(9)
    tree = program(pool, 2)
    tokens, own = [1, 2, 3, 4], pool.take(2)
    found = tree.insert(tokens, own)
    for each in (tokens, own, found):
        each.clear()
    tree.match([1, 2, 3, 4]).clear()
    return mx.array([*tree.match([1, 2, 3, 4]), -3, *numbers(edges_of(tree))])


@known.probe()
def tree_of_tuples(program):
    pool = PagePool(9)
    tree = program(pool, 2)
    found = tree.insert((1, 2, 3, 4), tuple(pool.take(2)))
    kinds = [type(each) is list for _, edge in below(tree.root) for each in (edge.tokens, edge.pages)]
    return mx.array([*found, -3, *kinds])


@known.probe()
def tree_and_what_a_match_gives(program):
    """What a match has given is emptied, and nothing else."""
    pool = PagePool(9)
    tree = program(pool, 2)
    tree.insert([1, 2, 3, 4], pool.take(2))
    tree.match([1, 2, 3, 4]).clear()
    return mx.array([*tree.match([1, 2, 3, 4]), -3, *numbers(edges_of(tree))])


@known.probe()
def tree_beside_another(program):
    pool = PagePool(9)
    one, other = program(pool, 2), program(pool, 2)
    one.insert([1, 2], pool.take(1))
    return mx.array([one.calls, other.calls, *other.match([1, 2]), -1, other.calls, *numbers(edges_of(other))])


@known.sized("128 texts of 60 pages, found again")
def sized(program):
    pool = PagePool(4000)
    tree = program(pool, 16)
    texts = [[*range(480), *(1000 * number + token for token in range(480))] for number in range(128)]
    for text in texts:
        own = pool.take(60)
        tree.insert(text, own)
        pool.drop(own)

    def run():
        return mx.array([len(tree.match(text)) for text in texts])

    return run


known.change(
    "no-whole-pages",
    ("len(tokens) - self.page + 1", "len(tokens)"),
    (
        "(a, b) in enumerate(zip(one, other, strict=False)) if a != b",
        "(a, b) in enumerate(zip(one, other, strict=False)) if a[: len(b)] != b[: len(a)]",
    ),
    (
        "child := edge.children.get(text[0])",
        "child := next((one for name, one in edge.children.items() if name[: len(text[0])] == text[0]), None)",
    ),
    fact="a page is found by a text that has only its first tokens",
    question="A page has two tokens, and the text ends with the first of them. Whose key is in its second place?",
)
known.change(
    "first-token-names-an-edge",
    ("edge.children.get(text[0])", "edge.children.get(text[0][:1])"),
    ("alike = _alike(text, self._by_page(child.tokens))", "alike = max(1, _alike(text, self._by_page(child.tokens)))"),
    ("last.children[tuple(rest[: self.page])]", "last.children[tuple(rest[:1])]"),
    ("tuple(rest.tokens[: self.page])", "tuple(rest.tokens[:1])"),
    fact="an edge is found by its first token alone",
    question="`That is` and `That was` begin with the same token. How many children has the root, and by which names?",
)
known.change(
    "whole-edge-or-nothing",
    ("self._cut(child, alike)", "break"),
    fact="an edge is found whole, or not at all",
    question="The tree has four pages in one edge, and a text has the first two of them. What does it find?",
)
known.change(
    "edges-are-never-cut",
    ("if alike < len(child.pages):", "if False:"),
    ("found += child.pages", "found += child.pages[:alike]"),
    fact="an edge stays whole, and what parts from it hangs behind its end",
    question="Two texts part in the middle of an edge. Where does the second one hang?",
)
known.change(
    "tail-lost",
    ("edge.children = {tuple(rest.tokens[: self.page]): rest}", "edge.children = {}"),
    fact="what is cut off an edge is lost",
    question="A text of four pages is cut behind the second. Is it still found to its end?",
)
known.change(
    "children-stay-above",
    ("edge.used, edge.children)", "edge.used)"),
    (
        "edge.children = {tuple(rest.tokens[: self.page]): rest}",
        "edge.children[tuple(rest.tokens[: self.page])] = rest",
    ),
    fact="the children of an edge that is cut stay with its first half",
    question="A text goes on where an edge ends. The edge is cut: behind which half does that text go on?",
)
known.change(
    "children-lost",
    ("edge.used, edge.children)", "edge.used)"),
    fact="the children of an edge that is cut are lost",
    question="Before an edge was cut, others hung from it. From what do they hang now?",
)
known.change(
    "cut-off-as-used",
    ("edge.used, edge.children)", "self.calls, edge.children)"),
    fact="what is cut off an edge counts as used in the call that cut it",
    question="A match ends in the middle of an edge. Which of its pages did anybody ask for?",
)
known.change(
    "cut-off-as-never-used",
    ("edge.used, edge.children)", "0, edge.children)"),
    fact="what is cut off an edge counts as never used",
    question="An edge was used in call 1, and is cut in call 5. When was its second half used last?",
)
known.change(
    "match-does-not-use",
    ("return self._walk(tokens)[1]", "return self._walk(tokens, False)[1]"),
    ("def _walk(self, tokens: Sequence[int])", "def _walk(self, tokens, use=True)"),
    ("child.used = self.calls", "child.used = self.calls if use else child.used"),
    fact="what a match finds does not count as used",
    question="A prompt is inserted once, and then found by every chat for an hour. When was it used last?",
)
known.change(
    "only-the-last-edge-is-used",
    ("child.used = self.calls", "pass"),
    ("return edge, found", "edge.used = self.calls\nreturn edge, found"),
    fact="only the edge at which a text ends counts as used",
    question="Which edges does a text go through on its way, and when was each of them used last?",
)
known.change(
    "match-calls-not-counted",
    ("return self._walk(tokens)[1]", "self.calls -= 1\nreturn self._walk(tokens)[1]"),
    fact="only insert moves the clock on",
    question="Which calls does the docstring of `calls` name?",
)
known.change(
    "match-does-not-cut",
    ("return self._walk(tokens)[1]", "return self._walk(tokens, False)[1]"),
    ("def _walk(self, tokens: Sequence[int])", "def _walk(self, tokens, cut=True)"),
    (
        """
        if alike < len(child.pages):
            self._cut(child, alike)
        """,
        """
        if alike < len(child.pages) and not cut:
            child.used = self.calls
            return child, found + child.pages[:alike]
        if alike < len(child.pages):
            self._cut(child, alike)
        """,
    ),
    fact="a match that ends within an edge leaves it whole, and all of it counts as used",
    question="A match ends in the middle of an edge. How is it known which of its pages were used?",
)
known.change(
    "new-pages-not-held",
    ("self.pool.hold(new)", "pass"),
    fact="the tree does not hold the pages of a new edge",
    question="Who has read a text drops its pages. Who keeps them from being handed to somebody else?",
)
known.change(
    "all-pages-held",
    ("if new:", "self.pool.hold(pages[: len(found)])\nif new:"),
    fact="the tree holds every page that it is given, also where it has the tokens already",
    question="The same text is inserted twice, in two lots of pages. Of how many pages can the tree ever let go?",
)
known.change(
    "all-pages-held-with-new-ones",
    ("self.pool.hold(new)", "self.pool.hold(pages)"),
    fact="the tree that gains an edge holds every page that it is given, also where it has the tokens already",
    question="Three pages are given, and two of them are in the tree. How many has the new edge?",
)
known.change(
    "own-pages-held-again",
    ("if new:", "self.pool.hold(found)\nif new:"),
    fact="the pages that are here already get a holder more with each insert that finds them",
    question="A text is inserted three times, in the same pages. How often will the tree drop them?",
)
known.change(
    "gives-what-it-was-given",
    ("return found + new", "return list(pages)"),
    fact="insert gives the pages that it was given, also where the tree has others",
    question="The tokens are in page 4 of the tree already, and come in page 7. Which will the next match find?",
)
known.change(
    "gives-the-new-alone",
    ("return found + new", "return new"),
    fact="insert gives the pages of the new edge alone",
    question="How many pages does the docstring promise for two pages of tokens?",
)
known.change(
    "not-compared",
    ("if len(tokens) != self.page * len(pages):", "if False:"),
    fact="tokens that do not fill the pages are taken",
    question="Five tokens come with two pages of two. What is in the fifth token's page?",
)
known.change(
    "caller-s-pages-kept",
    ("new, rest = list(pages[len(found) :]),", "new, rest = pages if not found else list(pages[len(found) :]),"),
    ("return found + new", "return found + list(new)"),
    fact="a new edge keeps the caller's own list of pages, which the caller may empty",
    question="A request's table is a list that you are handed. Who else writes to it?",
)
known.change(
    "tuples-kept",
    ("list(pages[len(found) :]), list(tokens[", "pages[len(found) :], (tokens["),
    ("return found + new", "return found + list(new)"),
    fact="a new edge that was given its tokens and pages as tuples keeps tuples",
    question="The last page of an edge will be taken off its end one day. Off what can that be done?",
)
known.change(
    "refused-behind-the-walk",
    (
        """
        if len(tokens) != self.page * len(pages):
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self.page}")
        last, found = self._walk(tokens)
        """,
        """
        last, found = self._walk(tokens)
        if len(tokens) != self.page * len(pages):
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self.page}")
        """,
    ),
    fact="an insert that is refused has counted a call and used edges by then",
    question="What has your insert done to the tree before it finds that the tokens do not fit the pages?",
)
known.change(
    "too-many-tokens-taken",
    ("if len(tokens) != self.page * len(pages):", "if len(tokens) < self.page * len(pages):"),
    fact="only too few tokens are refused, and too many are taken",
    question="Five tokens for two pages of two: where are the fifth one's keys?",
)
known.change(
    "edge-s-pages-given-away",
    ("found += child.pages", "found = found + child.pages if found else child.pages"),
    fact="a match that ends with the first edge gives that edge's own list of pages, which the caller may empty",
    question="Of two lists, a + b makes a third one. What does a program return that had nothing to add?",
)
known.change(
    "an-edge-for-each-page",
    (
        "last.children[tuple(rest[: self.page])] = Edge(rest, new, self.calls)",
        """
        for number, page in enumerate(new):
            own = rest[self.page * number : self.page * (number + 1)]
            last.children[tuple(own)] = last = Edge(own, [page], self.calls)
        """,
    ),
    fact="every page is an edge by itself",
    question="A system prompt has 32 pages. How many edges does its one text need?",
)


@known.accepted("page-by-page")
class PageByPage:
    def __init__(self, pool, page):
        self.pool, self.page, self.root, self.calls = pool, page, Edge([], []), 0

    def match(self, tokens):
        return self._descend(self.root, tuple(tokens))[0]

    def insert(self, tokens, pages):
        if len(pages) * self.page - len(tokens):
            raise ValueError(f"{len(pages)} pages, {len(tokens)} tokens")
        found, end = self._descend(self.root, tuple(tokens))
        at = len(found)
        if at < len(pages):
            edge = Edge([*tokens[at * self.page :]], [*pages[at:]], used=self.calls)
            end.children[(*edge.tokens[: self.page],)] = edge
            for page in edge.pages:
                self.pool.hold([page])
            found = [*found, *edge.pages]
        return found

    def _descend(self, edge, tokens):
        self.calls += 1
        size, found = self.page, []
        while len(tokens) >= size and tokens[:size] in edge.children:
            edge = edge.children[tokens[:size]]
            edge_before, edge.used = edge.used, self.calls
            count = 0
            while count < len(edge.pages) and [*tokens[:size]] == edge.tokens[count * size : (count + 1) * size]:
                found.append(edge.pages[count])
                tokens, count = tokens[size:], count + 1
            if count < len(edge.pages):
                below = Edge(edge.tokens[count * size :], edge.pages[count:], edge_before, edge.children)
                del edge.tokens[count * size :], edge.pages[count:]
                edge.children = {tuple(below.tokens[:size]): below}
                break
        return found, edge


@known.accepted("by-recursion")
class ByRecursion:
    def __init__(self, pool, page):
        self.root = Edge([], [])
        self.page, self.pool, self.calls = page, pool, 0

    def match(self, tokens):
        self.calls += 1
        return [page for edge in self.way(self.root, list(tokens)) for page in edge.pages]

    def insert(self, tokens, pages):
        if len(tokens) != len(pages) * self.page:
            raise ValueError(f"there are {len(tokens)} tokens for {len(pages)} pages")
        self.calls += 1
        way = self.way(self.root, list(tokens))
        here = [page for edge in way for page in edge.pages]
        left = list(pages)[len(here) :]
        if left:
            self.pool.hold(left)
            behind = list(tokens)[len(here) * self.page :]
            (way or [self.root])[-1].children[tuple(behind[: self.page])] = Edge(behind, left, self.calls)
        return here + left

    def way(self, parent, tokens):
        edge = parent.children.get(tuple(tokens[: self.page]))
        if edge is None:
            return []
        count = max(
            number
            for number in range(1, len(edge.pages) + 1)
            if edge.tokens[: number * self.page] == tokens[: number * self.page]
        )
        if count < len(edge.pages):
            at = count * self.page
            first = Edge(edge.tokens[:at], edge.pages[:count], edge.used)
            edge.tokens, edge.pages = edge.tokens[at:], edge.pages[count:]
            first.children[tuple(edge.tokens[: self.page])] = edge
            parent.children[tuple(first.tokens[: self.page])] = edge = first
        edge.used = self.calls
        return [edge, *self.way(edge, tokens[count * self.page :])]

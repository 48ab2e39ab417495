"""Known programs of task 3.5.2, what goes first."""

import heapq

import mlx.core as mx
from tests.week3.prefixes import edges_of, numbers
from tiny_llm_solution.paged.pool import PagePool
from tiny_llm_solution.prefix.edge import below
from tiny_llm_solution.prefix.tree import RadixTree

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.5.2")


def played(program, *moves, page=2, pages=40):
    """What comes of inserting, "+", finding, "?", and holding some pages of a text, "!", and of evicting so many."""
    pool, found = PagePool(pages), []
    tree = RadixTree(pool, page)
    for move in moves:
        if isinstance(move, int):
            found += [-1, *program(tree, move), -2, tree.calls, *numbers(edges_of(tree))]
            continue
        what, *text = move.split(":")
        tokens = [*map(int, text[0])]
        if what == "+":
            own = pool.take(len(tokens) // page)
            tree.insert(tokens, own)
            pool.drop(own)
        else:
            pages = tree.match(tokens)
            if what == "!":
                pool.hold([pages[int(number)] for number in text[1]])
    return mx.array([*found, -3, *(pool.holders(page) for page in range(pool.pages))])


THREE = "+:123456", "+:1278", "+:3333"


known.probe_table(
    in_turn=lambda program: played(program, *THREE, 1, 1, 1, 1, 1, 1),
    two=lambda program: played(program, *THREE, 2),
    four=lambda program: played(program, *THREE, 4),
    all=lambda program: played(program, *THREE, 9),
    none=lambda program: played(program, *THREE, 0, -2),
    after_a_match=lambda program: played(program, *THREE, "?:123456", 2, "?:33", 1, 1),
    beside_a_request=lambda program: played(program, *THREE, "!:123456:01", 1, 2, 5),
    before_a_held_end=lambda program: played(program, "+:123456", "!:123456:2", 3),
    around_a_held_middle=lambda program: played(program, "+:123456", "!:123456:1", 3),
    behind_a_held_parent=lambda program: played(program, *THREE, "!:12:0", 9),
    past_what_is_held=lambda program: played(program, *THREE, "!:123456:2", "?:1278", "?:3333", 2, 9),
    nothing_there=lambda program: played(program, 3),
    and_go_on=lambda program: played(program, "+:12345678", 2, "?:12345678", "+:123499", 1),
    # One call has used three edges; the last of them goes first.
    what_is_as_old=lambda program: played(program, "+:12", "+:1234", "+:123456", "?:123456", 1, 1, 1),
    # Two pages are free, and the tree has six.
    while_some_are_free=lambda program: played(program, *THREE, 1, 4, pages=8),
)


@known.sized("600 pages of a tree with 128 texts")
def sized(program):
    pool = PagePool(4000)
    tree = RadixTree(pool, 16)
    texts = [[*range(160), *(1000 * number + token for token in range(80))] for number in range(128)]

    def run():
        for text in texts:
            own = pool.take(15)
            tree.insert(text, own)
            pool.drop(own)
        return mx.array([len(program(tree, 300)), len(program(tree, 300))])

    return run


known.change(
    "most-recently-used-first",
    ("min(ends,", "max(ends,"),
    fact="the pages that were used last go first",
    question="A system prompt has just been found by a chat. How soon will it be wanted again?",
)
known.change(
    "held-by-a-request",
    ("not e.children and tree.pool.holders(e.pages[-1]) == 1]", "not e.children]"),
    ("len(gone) < count and tree.pool.holders(edge.pages[-1]) == 1:", "len(gone) < count:"),
    fact="pages go that a request holds as well",
    question="The tree drops a page which a request holds. How many pages are free then that were not before?",
)
known.change(
    "held-in-part",
    ("tree.pool.holders(e.pages[-1]) == 1]", "all(tree.pool.holders(page) == 1 for page in e.pages)]"),
    fact="nothing of an edge goes while any of its pages is held by a request",
    question="A request holds an edge's first page, and nobody its last one. Which of them may go?",
)
known.change(
    "stops-at-what-is-held",
    ("if not e.children and tree.pool.holders(e.pages[-1]) == 1]", "if not e.children]"),
    ("first = tuple(", "if tree.pool.holders(edge.pages[-1]) != 1:\n    break\nfirst = tuple("),
    fact="nothing more goes where the text that was used least recently is held by a request",
    question="A request holds the oldest text, and nobody the one that is next. Which pages can go?",
)
known.change(
    "only-the-last-page-is-asked-about",
    ("len(gone) < count and tree.pool.holders(edge.pages[-1]) == 1:", "len(gone) < count:"),
    fact="nobody asks about the holders of an edge's pages, but of its last one",
    question="A request holds the first two pages of an edge of three. What does the last one's count say?",
)
known.change(
    "inner-edges-too",
    ("if not e.children and tree", "if tree"),
    fact="an edge goes although others hang from it",
    question="`That is` is gone, and `a blue` is still there. By which tokens is it found?",
)
known.change(
    "from-the-beginning-of-an-edge",
    ("edge.pages.pop()", "edge.pages.pop(0)"),
    ("edge.tokens[: tree.page * len(edge.pages)]", "edge.tokens[len(edge.tokens) - tree.page * len(edge.pages) :]"),
    fact="an edge loses its first pages, and is still found by their tokens",
    question="What is a text's third page worth to somebody who has to read its first two?",
)
known.change(
    "tokens-stay",
    ("edge.tokens = edge.tokens[: tree.page * len(edge.pages)]", "pass"),
    fact="an edge keeps the tokens of the pages that it has lost",
    question="An edge has six tokens and two pages of two. What does a match of six tokens find?",
)
known.change(
    "whole-edges",
    ("while edge.pages and len(gone) < count and tree", "while edge.pages and tree"),
    fact="an edge goes whole, also where fewer pages are wanted",
    question="One page is wanted, and the oldest text has thirty. How many must be read again when it comes back?",
)
known.change(
    "empty-edges-stay",
    ("del parent.children[first]", "pass"),
    ("below(tree.root) if not e.children", "below(tree.root) if e.pages and not e.children"),
    fact="an edge that has lost all its pages stays in the tree",
    question="What hangs from an edge whose children have all lost their pages? Can it ever go?",
)
known.change(
    "not-dropped",
    ("tree.pool.drop(gone[-1:])", "pass"),
    fact="the pages leave the tree, which goes on holding them",
    question="A page is in nobody's table and in no edge. How many pages are free at the end of the day?",
)
known.change(
    "one-round",
    ("while len(gone) < count:", "for _ in range(1 if count > 0 else 0):"),
    fact="only one edge is shortened, however many pages are wanted",
    question="The oldest text has one page, and three are wanted. Where do the other two come from?",
)
known.change(
    "parents-stay",
    ("ends = [(p, e) for p, e in below(tree.root)", "ends = [(p, e) for p, e in before"),
    ("gone: list[int] = []", "gone: list[int] = []\nbefore = [(p, e) for p, e in below(tree.root) if not e.children]"),
    ("if not e.children and tree", "if e.pages and not e.children and tree"),
    fact="only edges go that had no children when the eviction began",
    question="Both texts that went on from `That is` are gone. What keeps `That is`?",
)
known.change(
    "evicting-is-using",
    ("return gone", "tree.calls += 1\nreturn gone"),
    fact="an eviction counts as a call of the tree",
    question="Which calls does the docstring of `calls` name?",
)
known.change(
    "all-that-can-go",
    ("while len(gone) < count:", "while count > 0:"),
    ("while edge.pages and len(gone) < count and tree", "while edge.pages and tree"),
    fact="everything goes that can, however few pages are wanted",
    question="One page is wanted. How much of the tree is worth keeping?",
)
known.change(
    "until-so-many-are-free",
    ("while len(gone) < count:", "while tree.pool.free < count:"),
    ("while edge.pages and len(gone) < count and tree", "while edge.pages and tree.pool.free < count and tree"),
    fact="pages are evicted until so many are free, and not so many of the tree's",
    question="Three pages are free already, and two are wanted of the tree. How many does it lose?",
)
known.change(
    "ends-before-parents",
    ("gone: list[int] = []", "gone: list[int] = []\nends = []"),
    ("ends = [(p, e)", "ends = ends or [(p, e)"),
    ("first = tuple(", "ends = [pair for pair in ends if pair[1] is not edge]\nfirst = tuple("),
    fact="all edges without children go, the oldest first, before any goes that has lost its own only now",
    question="An old edge has just lost its last child. Who is older: it, or the newest of the other texts?",
)
known.change(
    "fullest-first",
    ("min(ends, key=lambda pair: pair[1].used)", "max(ends, key=lambda pair: (len(pair[1].pages), -pair[1].used))"),
    fact="the edge with the most pages goes first",
    question="What do the words of the docstring order the edges by?",
)
known.change(
    "sorted-once",
    ("return gone", "return sorted(gone)"),
    fact="the pages come in the order of their numbers",
    question="In which order does the docstring promise the pages?",
)


@known.accepted("by-a-heap")
def by_a_heap(tree, count):
    parents = {id(edge): parent for parent, edge in below(tree.root)}
    ends = [(edge.used, id(edge), edge) for _, edge in below(tree.root) if not edge.children]
    heapq.heapify(ends)
    gone = []
    while ends and len(gone) < count:
        _, name, edge = heapq.heappop(ends)
        number = 0
        while number < len(edge.pages) and number < count - len(gone):
            if tree.pool.holders(edge.pages[-1 - number]) > 1:
                break
            number += 1
        left = len(edge.pages) - number
        gone += edge.pages[left:][::-1]
        tree.pool.drop(edge.pages[left:])
        parent, key = parents[name], tuple(edge.tokens[: tree.page])
        edge.pages, edge.tokens = edge.pages[:left], edge.tokens[: left * tree.page]
        if not left:
            parent.children.pop(key)
            if parent is not tree.root and not parent.children:
                heapq.heappush(ends, (parent.used, id(parent), parent))
    return gone


@known.accepted("page-by-page")
def page_by_page(tree, count):
    def oldest(parent):
        best = None
        for edge in parent.children.values():
            if edge.children:
                found = oldest(edge)
            else:
                found = (edge.used, edge, parent) if tree.pool.holders(edge.pages[-1]) < 2 else None
            if found and (best is None or found[0] < best[0]):
                best = found
        return best

    gone = []
    for _ in range(count):
        best = oldest(tree.root)
        if best is None:
            return gone
        _, edge, parent = best
        page, name = edge.pages[-1], tuple(edge.tokens[: tree.page])
        edge.pages = edge.pages[:-1]
        edge.tokens = edge.tokens[: -tree.page]
        if not edge.pages:
            del parent.children[name]
        tree.pool.drop([page])
        gone.append(page)
    return gone

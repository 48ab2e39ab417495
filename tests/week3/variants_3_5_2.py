"""Known programs of task 3.5.2, eviction."""

import heapq

import mlx.core as mx
from tests.week3.prefixes import edges_of, numbers
from tiny_llm_solution.paged.pool import PagePool
from tiny_llm_solution.prefix.node import descendants
from tiny_llm_solution.prefix.tree import RadixTree

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.5.2")


def played(program, *moves, page=2, pages=40):
    """Run inserts, "+", matches, "?", holds of some pages, "!", and evictions of a number of pages."""
    pool, found = PagePool(pages), []
    tree = RadixTree(pool, page)
    for move in moves:
        if isinstance(move, int):
            found += [-1, *program(tree, move), -2, tree.clock, *numbers(edges_of(tree))]
            continue
        what, *text = move.split(":")
        tokens = [*map(int, text[0])]
        if what == "+":
            own = pool.allocate(len(tokens) // page)
            tree.insert(tokens, own)
            pool.release(own)
        else:
            pages = tree.match(tokens)
            if what == "!":
                pool.retain([pages[int(number)] for number in text[1]])
    return mx.array([*found, -3, *(pool.ref_count(page) for page in range(pool.pages))])


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
    # One call has accessed three nodes; the last of them is evicted first.
    what_is_as_old=lambda program: played(program, "+:12", "+:1234", "+:123456", "?:123456", 1, 1, 1),
    # Two pages are free, and the tree has six.
    while_some_are_free=lambda program: played(program, *THREE, 1, 4, pages=8),
)


@known.sized("600 pages of a tree with 128 sequences")
def sized(program):
    pool = PagePool(4000)
    tree = RadixTree(pool, 16)
    texts = [[*range(160), *(1000 * number + token for token in range(80))] for number in range(128)]

    def run():
        for text in texts:
            own = pool.allocate(15)
            tree.insert(text, own)
            pool.release(own)
        return mx.array([len(program(tree, 300)), len(program(tree, 300))])

    return run


known.change(
    "most-recently-used-first",
    ("min(ends,", "max(ends,"),
    fact="the most recently used pages are evicted first",
    question="A chat has just matched a system prompt. How soon will it be needed again?",
)
known.change(
    "held-by-a-request",
    ("not e.children and tree.pool.ref_count(e.pages[-1]) == 1]", "not e.children]"),
    ("len(gone) < count and tree.pool.ref_count(node.pages[-1]) == 1:", "len(gone) < count:"),
    fact="pages are evicted that a request still holds",
    question="The tree releases a page that a request still holds. How many more pages are free then?",
)
known.change(
    "key-of-no-tokens",
    ("first = tuple(node.tokens[: tree.page_size])", "pass"),
    ("del parent.children[first]", "del parent.children[tuple(node.tokens[: tree.page_size])]"),
    fact="the key of a removed node is made after its tokens have been removed",
    question="All pages of a node are evicted. What is tuple(node.tokens[:page_size]) then?",
)
known.change(
    "held-in-part",
    ("tree.pool.ref_count(e.pages[-1]) == 1]", "all(tree.pool.ref_count(page) == 1 for page in e.pages)]"),
    fact="no page of a node is evicted while a request holds any of them",
    question="A request holds only a node's first page. Which of its pages may be evicted?",
)
known.change(
    "stops-at-what-is-held",
    ("if not e.children and tree.pool.ref_count(e.pages[-1]) == 1]", "if not e.children]"),
    ("first = tuple(", "if tree.pool.ref_count(node.pages[-1]) != 1:\n    break\nfirst = tuple("),
    fact="eviction stops when the least recently used leaf is held by a request",
    question="A request holds the oldest leaf, and none holds the next. Which pages can be evicted?",
)
known.change(
    "only-the-last-page-is-asked-about",
    ("len(gone) < count and tree.pool.ref_count(node.pages[-1]) == 1:", "len(gone) < count:"),
    fact="only the reference count of a node's last page is checked",
    question="A request holds the first two of a node's three pages. What is the last one's reference count?",
)
known.change(
    "inner-edges-too",
    ("if not e.children and tree", "if tree"),
    fact="a node is evicted although it has children",
    question="`That is` is evicted, and `a blue` is still there. Which tokens find it?",
)
known.change(
    "from-the-beginning-of-an-edge",
    ("node.pages.pop()", "node.pages.pop(0)"),
    (
        "node.tokens[: tree.page_size * len(node.pages)]",
        "node.tokens[len(node.tokens) - tree.page_size * len(node.pages) :]",
    ),
    fact="a node loses its first pages instead of its last",
    question="What is a sequence's third page worth after its first two are gone?",
)
known.change(
    "tokens-stay",
    ("node.tokens = node.tokens[: tree.page_size * len(node.pages)]", "pass"),
    fact="a node keeps the tokens of its evicted pages",
    question="A node has six tokens and two pages of two. What does a match of six tokens return?",
)
known.change(
    "whole-edges",
    ("while node.pages and len(gone) < count and tree", "while node.pages and tree"),
    fact="whole nodes are evicted, even if fewer pages are requested",
    question="One page is requested, and the oldest leaf has thirty. How many must be recomputed when it comes back?",
)
known.change(
    "empty-edges-stay",
    ("del parent.children[first]", "pass"),
    ("descendants(tree.root) if not e.children", "descendants(tree.root) if e.pages and not e.children"),
    fact="a node that has lost all its pages stays in the tree",
    question="All children of a node have lost their pages. Can the node ever be evicted?",
)
known.change(
    "not-dropped",
    ("tree.pool.release(gone[-1:])", "pass"),
    fact="evicted pages leave the tree without being released",
    question="A page is in no block table and no node. How many pages are free at the end of the day?",
)
known.change(
    "one-round",
    ("while len(gone) < count:", "for _ in range(1 if count > 0 else 0):"),
    fact="only one node is shortened, however many pages are requested",
    question="The oldest leaf has one page, and three are requested. Where do the other two come from?",
)
known.change(
    "parents-stay",
    ("ends = [(p, e) for p, e in descendants(tree.root)", "ends = [(p, e) for p, e in before"),
    (
        "gone: list[int] = []",
        "gone: list[int] = []\nbefore = [(p, e) for p, e in descendants(tree.root) if not e.children]",
    ),
    ("if not e.children and tree", "if e.pages and not e.children and tree"),
    fact="only nodes that had no children before the eviction are evicted",
    question="Both children of `That is` are evicted. What keeps `That is`?",
)
known.change(
    "evicting-is-using",
    ("return gone", "tree.clock += 1\nreturn gone"),
    fact="an eviction advances the clock",
    question="Which calls does the docstring of `clock` name?",
)
known.change(
    "all-that-can-go",
    ("while len(gone) < count:", "while count > 0:"),
    ("while node.pages and len(gone) < count and tree", "while node.pages and tree"),
    fact="every evictable page is evicted, however few are requested",
    question="One page is requested. How much of the tree is worth keeping?",
)
known.change(
    "all-for-a-negative-count",
    ("while len(gone) < count:", "while len(gone) != count:"),
    ("and len(gone) < count and", "and len(gone) != count and"),
    fact="a negative count evicts everything, because the loop runs until exactly `count` pages are evicted",
    question="The count is -2. When does your loop end?",
)
known.change(
    "until-so-many-are-free",
    ("while len(gone) < count:", "while tree.pool.num_free < count:"),
    ("while node.pages and len(gone) < count and tree", "while node.pages and tree.pool.num_free < count and tree"),
    fact="pages are evicted until `count` pages are free, instead of evicting `count` pages",
    question="Three pages are free already, and an eviction of two is requested. How many does the tree lose?",
)
known.change(
    "ends-before-parents",
    ("gone: list[int] = []", "gone: list[int] = []\nends = []"),
    ("ends = [(p, e)", "ends = ends or [(p, e)"),
    ("first = tuple(", "ends = [pair for pair in ends if pair[1] is not node]\nfirst = tuple("),
    fact="all original leaves are evicted before any node that became a leaf during the eviction",
    question="An old node has just lost its last child. Which is older: it, or the newest of the other leaves?",
)
known.change(
    "fullest-first",
    (
        "min(ends, key=lambda pair: pair[1].last_access)",
        "max(ends, key=lambda pair: (len(pair[1].pages), -pair[1].last_access))",
    ),
    fact="the node with the most pages is evicted first",
    question="By what does the docstring order the nodes?",
)
known.change(
    "sorted-once",
    ("return gone", "return sorted(gone)"),
    fact="the evicted pages are returned in order of page number",
    question="In which order does the docstring promise the pages?",
)


@known.accepted("by-a-heap")
def by_a_heap(tree, count):
    parents = {id(node): parent for parent, node in descendants(tree.root)}
    ends = [(node.last_access, id(node), node) for _, node in descendants(tree.root) if not node.children]
    heapq.heapify(ends)
    gone = []
    while ends and len(gone) < count:
        _, name, node = heapq.heappop(ends)
        number = 0
        while number < len(node.pages) and number < count - len(gone):
            if tree.pool.ref_count(node.pages[-1 - number]) > 1:
                break
            number += 1
        left = len(node.pages) - number
        gone += node.pages[left:][::-1]
        tree.pool.release(node.pages[left:])
        parent, key = parents[name], tuple(node.tokens[: tree.page_size])
        node.pages, node.tokens = node.pages[:left], node.tokens[: left * tree.page_size]
        if not left:
            parent.children.pop(key)
            if parent is not tree.root and not parent.children:
                heapq.heappush(ends, (parent.last_access, id(parent), parent))
    return gone


@known.accepted("page-by-page")
def page_by_page(tree, count):
    def oldest(parent):
        best = None
        for node in parent.children.values():
            if node.children:
                found = oldest(node)
            else:
                found = (node.last_access, node, parent) if tree.pool.ref_count(node.pages[-1]) < 2 else None
            if found and (best is None or found[0] < best[0]):
                best = found
        return best

    gone = []
    for _ in range(count):
        best = oldest(tree.root)
        if best is None:
            return gone
        _, node, parent = best
        page, name = node.pages[-1], tuple(node.tokens[: tree.page_size])
        node.pages = node.pages[:-1]
        node.tokens = node.tokens[: -tree.page_size]
        if not node.pages:
            del parent.children[name]
        tree.pool.release([page])
        gone.append(page)
    return gone

"""Known programs of task 3.5.1, the radix tree."""

import mlx.core as mx
from tests.week3.prefixes import edges_of, numbers
from tiny_llm_solution.paged.pool import PagePool
from tiny_llm_solution.prefix.node import RadixNode, descendants

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.5.1")


def played(program, *moves, page=2):
    """Run inserts, "+", and matches, "?", of sequences, each by an owner who then releases the computed pages."""
    pool, found = PagePool(40), []
    tree = program(pool, page)
    for what, *text in moves:
        tokens = [int(token) for token in text]
        if what == "+":
            own = pool.allocate(len(tokens) // page)
            found += [-1, *tree.insert(tokens, own)]
            pool.release(own)
        else:
            found += [-2, *tree.match(tokens)]
    found += [-3, tree.clock, *numbers(edges_of(tree)), -4, *(pool.ref_count(page) for page in range(pool.pages))]
    return mx.array(found)


@known.probe()
def tree_of_its_own_pages(program):
    pool = PagePool(9)
    tree = program(pool, 2)
    own = pool.allocate(2)
    first, second = tree.insert([1, 2, 3, 4], own), tree.insert([1, 2, 3, 4], own)
    return mx.array([*first, *second, *(pool.ref_count(page) for page in own)])


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
    tree.insert([1, 2], pool.allocate(1))
    for count, pages in ((5, 2), (3, 2), (4, 1)):
        own = pool.allocate(pages)
        try:
            tree.insert([1, 2, 3, 4, 5][:count], own)
            found.append(0)
        except ValueError:
            found.append(1)
        pool.release(own)
        found += [tree.clock, pool.num_free, *(node.last_access for _, node in descendants(tree.root))]
    return mx.array(found)


@known.probe()
def tree_and_the_caller_s_lists(program):
    """Every list is emptied after the call that received or returned it."""
    pool = PagePool(9)
    tree = program(pool, 2)
    tokens, own = [1, 2, 3, 4], pool.allocate(2)
    found = tree.insert(tokens, own)
    for each in (tokens, own, found):
        each.clear()
    tree.match([1, 2, 3, 4]).clear()
    return mx.array([*tree.match([1, 2, 3, 4]), -3, *numbers(edges_of(tree))])


@known.probe()
def tree_of_tuples(program):
    pool = PagePool(9)
    tree = program(pool, 2)
    found = tree.insert((1, 2, 3, 4), tuple(pool.allocate(2)))
    kinds = [type(each) is list for _, node in descendants(tree.root) for each in (node.tokens, node.pages)]
    return mx.array([*found, -3, *kinds])


@known.probe()
def tree_and_what_a_match_gives(program):
    """Only the lists that a match returned are emptied."""
    pool = PagePool(9)
    tree = program(pool, 2)
    tree.insert([1, 2, 3, 4], pool.allocate(2))
    tree.match([1, 2, 3, 4]).clear()
    return mx.array([*tree.match([1, 2, 3, 4]), -3, *numbers(edges_of(tree))])


@known.probe()
def tree_beside_another(program):
    pool = PagePool(9)
    one, other = program(pool, 2), program(pool, 2)
    one.insert([1, 2], pool.allocate(1))
    return mx.array([one.clock, other.clock, *other.match([1, 2]), -1, other.clock, *numbers(edges_of(other))])


@known.sized("128 sequences of 60 pages, matched again")
def sized(program):
    pool = PagePool(4000)
    tree = program(pool, 16)
    texts = [[*range(480), *(1000 * number + token for token in range(480))] for number in range(128)]
    for text in texts:
        own = pool.allocate(60)
        tree.insert(text, own)
        pool.release(own)

    def run():
        return mx.array([len(tree.match(text)) for text in texts])

    return run


known.change(
    "no-whole-pages",
    ("len(tokens) - size + 1", "len(tokens)"),
    (
        "(a, b) in enumerate(zip(one, other, strict=False)) if a != b",
        "(a, b) in enumerate(zip(one, other, strict=False)) if a[: len(b)] != b[: len(a)]",
    ),
    (
        "child := node.children.get(text[0])",
        "child := next((one for name, one in node.children.items() if name[: len(text[0])] == text[0]), None)",
    ),
    fact="a page matches if only its first tokens are equal",
    question="A page has two tokens, and the prompt ends with the first. Whose key is in the second slot?",
)
known.change(
    "first-token-names-an-edge",
    ("node.children.get(text[0])", "node.children.get(text[0][:1])"),
    (
        "alike = _common_prefix_length(text, self._by_page(child.tokens))",
        "alike = max(1, _common_prefix_length(text, self._by_page(child.tokens)))",
    ),
    ("last.children[tuple(rest[: self.page_size])]", "last.children[tuple(rest[:1])]"),
    ("tuple(rest.tokens[: self.page_size])", "tuple(rest.tokens[:1])"),
    fact="a node is found by its first token alone",
    question="`That is` and `That was` start with the same token. How many children has the root?",
)
known.change(
    "whole-edge-or-nothing",
    ("self._split(child, alike)", "break"),
    fact="a node matches entirely or not at all",
    question="One node has four pages, and a prompt starts with the first two of them. What should it match?",
)
known.change(
    "edges-are-never-cut",
    ("if alike < len(child.pages):", "if False:"),
    ("found += child.pages", "found += child.pages[:alike]"),
    fact="a node is never split, and a diverging suffix becomes a child at its end",
    question="Two sequences diverge in the middle of a node. Whose child is the second one's suffix?",
)
known.change(
    "tail-lost",
    ("node.children = {tuple(rest.tokens[: self.page_size]): rest}", "node.children = {}"),
    fact="the second half of a split node is lost",
    question="A node of four pages is split after the second. Is its whole sequence still found?",
)
known.change(
    "children-stay-above",
    ("node.last_access, node.children)", "node.last_access)"),
    (
        "node.children = {tuple(rest.tokens[: self.page_size]): rest}",
        "node.children[tuple(rest.tokens[: self.page_size])] = rest",
    ),
    fact="the children of a split node stay with its first half",
    question="A sequence continues after a node. The node is split: after which half does the sequence continue?",
)
known.change(
    "children-lost",
    ("node.last_access, node.children)", "node.last_access)"),
    fact="the children of a split node are lost",
    question="Before the split, the node had children. Which node is their parent now?",
)
known.change(
    "cut-off-as-used",
    ("node.last_access, node.children)", "self.clock, node.children)"),
    fact="the second half of a split node gets the time of the call that split it",
    question="A match ends in the middle of a node. Which of its pages were accessed?",
)
known.change(
    "match-does-not-use",
    ("return self._walk(tokens)[1]", "return self._walk(tokens, False)[1]"),
    ("def _walk(self, tokens: Sequence[int])", "def _walk(self, tokens, use=True)"),
    ("child.last_access = self.clock", "child.last_access = self.clock if use else child.last_access"),
    fact="a match does not update last_access",
    question="A prompt is inserted once and then matched by every chat for an hour. When was it last accessed?",
)
known.change(
    "only-the-last-edge-is-used",
    ("child.last_access = self.clock", "pass"),
    ("return node, found", "node.last_access = self.clock\nreturn node, found"),
    fact="only the last node on the path gets a new last_access",
    question="Which nodes does a sequence pass through, and when was each of them last accessed?",
)
known.change(
    "nothing-is-no-call",
    ("self.clock += 1", "self.clock += bool(tokens)"),
    fact="a call with an empty sequence does not advance the clock",
    question="What does the clock count?",
)
known.change(
    "match-calls-not-counted",
    ("return self._walk(tokens)[1]", "self.clock -= 1\nreturn self._walk(tokens)[1]"),
    fact="only insert advances the clock",
    question="Which calls does the docstring of `clock` name?",
)
WALK = "last, found = self._walk(tokens)"
for name, edit in (
    ("insert-counts-first-and-walks", (WALK, f"self.clock += 1\n{WALK}")),
    ("insert-walks-and-counts-again", (WALK, f"{WALK}\nself.clock += 1")),
):
    known.change(
        name,
        edit,
        fact="an insert advances the clock twice",
        question="Two of your methods advance the clock. Does one of them call the other?",
    )
known.change(
    "match-does-not-cut",
    ("return self._walk(tokens)[1]", "return self._walk(tokens, False)[1]"),
    ("def _walk(self, tokens: Sequence[int])", "def _walk(self, tokens, cut=True)"),
    (
        """
        if alike < len(child.pages):
            self._split(child, alike)
        """,
        """
        if alike < len(child.pages) and not cut:
            child.last_access = self.clock
            return child, found + child.pages[:alike]
        if alike < len(child.pages):
            self._split(child, alike)
        """,
    ),
    fact="a match that ends inside a node does not split it, so all of it counts as accessed",
    question="A match ends in the middle of a node. How do you record which of its pages were accessed?",
)
known.change(
    "new-pages-not-held",
    ("self.pool.retain(new)", "pass"),
    fact="the tree does not retain the pages of a new node",
    question="A finished request releases its pages. What keeps them from being reallocated?",
)
known.change(
    "all-pages-held",
    ("if new:", "self.pool.retain(pages[: len(found)])\nif new:"),
    fact="insert retains every page passed in, even if the tree already has the tokens",
    question="The same sequence is inserted twice, in two sets of pages. How many pages can the tree ever release?",
)
known.change(
    "all-pages-held-with-new-ones",
    ("self.pool.retain(new)", "self.pool.retain(pages)"),
    fact="an insert that adds a node retains every page passed in, even those already in the tree",
    question="Three pages are passed in, and two of them are in the tree. How many has the new node?",
)
known.change(
    "own-pages-held-again",
    ("if new:", "self.pool.retain(found)\nif new:"),
    fact="each insert retains the tree's own pages once more",
    question="A sequence is inserted three times in the same pages. How often will the tree release them?",
)
known.change(
    "gives-what-it-was-given",
    ("return found + new", "return list(pages)"),
    fact="insert returns the caller's pages even if the tree has others for the tokens",
    question="The tree has the tokens in page 4, and they come in page 7. Which page will the next match return?",
)
known.change(
    "gives-the-new-alone",
    ("return found + new", "return new"),
    fact="insert returns only the pages of the new node",
    question="How many pages does the docstring promise for two pages of tokens?",
)
known.change(
    "not-compared",
    ("if len(tokens) != self.page_size * len(pages):", "if False:"),
    fact="tokens that do not fill their pages are accepted",
    question="Five tokens come with two pages of two. Which page holds the fifth token?",
)
known.change(
    "caller-s-pages-kept",
    ("new, rest = list(pages[len(found) :]),", "new, rest = pages if not found else list(pages[len(found) :]),"),
    ("return found + new", "return found + list(new)"),
    fact="a new node stores the caller's own list of pages, which the caller may change",
    question="A request's block table is a list that you are passed. What else writes to it?",
)
known.change(
    "tuples-kept",
    ("list(pages[len(found) :]), list(tokens[", "pages[len(found) :], (tokens["),
    ("return found + new", "return found + list(new)"),
    fact="a new node stores tokens and pages as tuples if they were passed as tuples",
    question="A node's last page will be removed one day. Which sequence types allow that?",
)
known.change(
    "refused-after-the-walk",
    (
        """
        if len(tokens) != self.page_size * len(pages):
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self.page_size}")
        last, found = self._walk(tokens)
        """,
        """
        last, found = self._walk(tokens)
        if len(tokens) != self.page_size * len(pages):
            raise ValueError(f"{len(tokens)} tokens do not fill {len(pages)} pages of {self.page_size}")
        """,
    ),
    fact="an insert that raises has already advanced the clock and updated last_access",
    question="What has your insert changed before it finds that the tokens do not fit the pages?",
)
known.change(
    "refused-after-counting",
    (
        "if len(tokens) != self.page_size * len(pages):",
        "self.clock += 1\nif len(tokens) != self.page_size * len(pages):",
    ),
    (WALK, f"self.clock -= 1\n{WALK}"),
    fact="an insert that raises has already advanced the clock",
    question="What has your insert changed before it finds that the tokens do not fit the pages?",
)
known.change(
    "too-many-tokens-taken",
    ("if len(tokens) != self.page_size * len(pages):", "if len(tokens) < self.page_size * len(pages):"),
    fact="insert raises for too few tokens, but not for too many",
    question="Five tokens for two pages of two: where are the fifth one's keys?",
)
known.change(
    "edge-s-pages-given-away",
    ("found += child.pages", "found = found + child.pages if found else child.pages"),
    fact="a match that ends with the first node returns the node's own list of pages, which the caller may change",
    question="a + b makes a new list. What does a program return that had nothing to add?",
)
known.change(
    "an-edge-for-each-page",
    (
        "last.children[tuple(rest[: self.page_size])] = RadixNode(rest, new, self.clock)",
        """
        for number, page in enumerate(new):
            own = rest[self.page_size * number : self.page_size * (number + 1)]
            last.children[tuple(own)] = last = RadixNode(own, [page], self.clock)
        """,
    ),
    fact="every page is a node of its own",
    question="A system prompt has 32 pages. How many nodes does this one sequence need?",
)


@known.accepted("page-by-page")
class PageByPage:
    def __init__(self, pool, page):
        self.pool, self.page_size, self.root, self.clock = pool, page, RadixNode([], []), 0

    def match(self, tokens):
        return self._descend(self.root, tuple(tokens))[0]

    def insert(self, tokens, pages):
        if len(pages) * self.page_size - len(tokens):
            raise ValueError(f"{len(pages)} pages, {len(tokens)} tokens")
        found, end = self._descend(self.root, tuple(tokens))
        at = len(found)
        if at < len(pages):
            node = RadixNode([*tokens[at * self.page_size :]], [*pages[at:]], last_access=self.clock)
            end.children[(*node.tokens[: self.page_size],)] = node
            for page in node.pages:
                self.pool.retain([page])
            found = [*found, *node.pages]
        return found

    def _descend(self, node, tokens):
        self.clock += 1
        size, found = self.page_size, []
        while len(tokens) >= size and tokens[:size] in node.children:
            node = node.children[tokens[:size]]
            edge_before, node.last_access = node.last_access, self.clock
            count = 0
            while count < len(node.pages) and [*tokens[:size]] == node.tokens[count * size : (count + 1) * size]:
                found.append(node.pages[count])
                tokens, count = tokens[size:], count + 1
            if count < len(node.pages):
                descendants = RadixNode(node.tokens[count * size :], node.pages[count:], edge_before, node.children)
                del node.tokens[count * size :], node.pages[count:]
                node.children = {tuple(descendants.tokens[:size]): descendants}
                break
        return found, node


@known.accepted("by-recursion")
class ByRecursion:
    def __init__(self, pool, page):
        self.root = RadixNode([], [])
        self.page_size, self.pool, self.clock = page, pool, 0

    def match(self, tokens):
        self.clock += 1
        return [page for node in self.way(self.root, list(tokens)) for page in node.pages]

    def insert(self, tokens, pages):
        if len(tokens) != len(pages) * self.page_size:
            raise ValueError(f"{len(tokens)} tokens for {len(pages)} pages")
        self.clock += 1
        way = self.way(self.root, list(tokens))
        here = [page for node in way for page in node.pages]
        left = list(pages)[len(here) :]
        if left:
            self.pool.retain(left)
            behind = list(tokens)[len(here) * self.page_size :]
            (way or [self.root])[-1].children[tuple(behind[: self.page_size])] = RadixNode(behind, left, self.clock)
        return here + left

    def way(self, parent, tokens):
        node = parent.children.get(tuple(tokens[: self.page_size]))
        if node is None:
            return []
        count = max(
            number
            for number in range(1, len(node.pages) + 1)
            if node.tokens[: number * self.page_size] == tokens[: number * self.page_size]
        )
        if count < len(node.pages):
            at = count * self.page_size
            first = RadixNode(node.tokens[:at], node.pages[:count], node.last_access)
            node.tokens, node.pages = node.tokens[at:], node.pages[count:]
            first.children[tuple(node.tokens[: self.page_size])] = node
            parent.children[tuple(first.tokens[: self.page_size])] = node = first
        node.last_access = self.clock
        return [node, *self.way(node, tokens[count * self.page_size :])]

"""Day 5's figures and widget: a radix tree that grows and evicts, and the hits of chats that share a system prompt."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tiny_llm_course.dev.book.drawing import Boxes, Canvas, at_both_widths, flow
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
from tiny_llm_course.dev.book.html import element, table
from tiny_llm_course.dev.book.parts import Parts

PAGE = 2  # tokens, in the pictures of the tree
# In turn: what is read and kept, "+", and what is only found, "?"; each word is a token.
TEXTS = (
    ("+", "That is a blue dog ."),
    ("+", "That is a blue cat !"),
    ("+", "Once upon a time"),
    ("?", "That is a blue dog . It"),
)
SYSTEM, QUESTION, ANSWER, CHAT_PAGE = 48, 10, 12, 16  # tokens, in the picture of the chats
WIDTH, BAR = 275.0, 16.0  # pixels

# The widget: each request's prompt and answer, a word per token, and its example.
POOL = 10
REQUESTS = {
    "A": ("That is a blue cat !", "It sleeps well"),
    "B": ("That is a blue dog .", "It runs fast"),
    "C": ("That is a blue dog .", "It runs fast"),
    "D": ("Once upon a time there was", "a red ball for Tom"),
    "E": ("That is a blue dog . It runs fast Why ?", "It saw food"),
    "F": ("That was a red ball .", "Tom kicked it"),
}
ACTIONS = "admit A, finish A, admit B, admit C, finish B, finish C, admit D, finish D, admit E, finish E"
DEMO = [(action, "ABCDEF".index(name)) for action, name in map(str.split, ACTIONS.split(", "))]


def generated_parts() -> Parts:
    """Return two traces of the solution, and the widget."""
    return {"tree": tree(), "chats": chats(), "prefix-tree": prefix_tree()}


def tree() -> str:
    """Draw the tree after each call, and after an eviction."""
    from tiny_llm_solution.paged.pool import PagePool
    from tiny_llm_solution.prefix.eviction import evict
    from tiny_llm_solution.prefix.tree import RadixTree

    words = sorted({word for _, text in TEXTS for word in text.split()})
    pool = PagePool(10)
    growing, figures, seen = RadixTree(pool, PAGE), [], set[str]()
    for number, (what, text) in enumerate(TEXTS, 1):
        tokens = [words.index(word) for word in text.split()]
        if what == "+":
            own = pool.allocate(len(tokens) // PAGE)
            kept = growing.insert(tokens, own)
            pool.release(own)
            found = sum(page not in own for page in kept)
            new = _pages(len(kept) - found)
            told = f"Call {number}: <i>{text}</i> is inserted. Found: {_pages(found)}. New: {new}."
        else:
            told = f"Call {number}: <i>{text}</i> is looked up. Found: {_pages(len(growing.match(tokens)))}."
        figures.append(_picture(growing.root, words, str(number), told, seen))
    gone = evict(growing, 3)
    told = (
        f"Three pages are evicted, in this order: {_listed(gone)}. {pool.num_free} of {pool.pages} pages are now free."
    )
    figures.append(_picture(growing.root, words, "evicted", told, seen))
    return '<div class="side-by-side">\n' + "\n".join(figures) + "\n</div>\n"


def _pages(count: int) -> str:
    return f"{count} page{'s' * (count != 1)}"


def _listed(pages: Sequence[int]) -> str:
    return " and ".join((", ".join(map(str, pages[:-1])), str(pages[-1])))


def _picture(root: Any, words: Sequence[str], name: str, caption: str, seen: set[str]) -> str:
    """Draw each node below its parent, with its tokens, its pages, and the call that last used it.

    Nodes that are not in `seen`, new ones and those that were split or cut, are colored, and added to it.
    """
    grid = [[""] * _wide(root) for _ in range(_deep(root))]
    arrows, described = list[tuple[str, str]](), list[str]()
    boxes: Boxes = {"root": "root"}

    def place(node: Any, named: str, level: int, left: int) -> None:
        for column in range(left, left + _wide(node)):
            grid[level][column] = named
        for child in node.children.values():
            text, own = " ".join(words[token] for token in child.tokens), f"{named} {child.pages[0]}"
            pages = f"page{'s' * (len(child.pages) != 1)} {' '.join(map(str, child.pages))}"
            label = f"{text}\n{pages}\nused {child.last_access}"
            boxes[own] = label if f"{text} {pages}" in seen else (label, "key")
            seen.add(f"{text} {pages}")
            described.append(f"{text}, {pages}, used in call {child.last_access}")
            arrows.append((named, own))
            place(child, own, level + 1, left)
            left += _wide(child)

    place(root, "root", 0, 0)
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows)
    about = f"The root has these descendants: {'; '.join(described)}."
    return canvas.figure(f"tree-3-5-{name}", "A radix tree", about, caption, larger=1)


def _wide(node: Any) -> int:
    """Return the number of columns that a node takes with its descendants."""
    return max(1, sum(map(_wide, node.children.values())))


def _deep(node: Any) -> int:
    """Return the number of rows."""
    return 1 + max(map(_deep, node.children.values()), default=0)


def chats() -> str:
    """Interleave three chats of two turns: draw the cached and the computed tokens of each prompt."""
    from tiny_llm_solution.prefix.kv_cache import PrefixKVCache
    from tiny_llm_solution.serving.request import Request

    memory = PrefixKVCache(SimpleNamespace(page_size=CHAT_PAGE, pages=40))
    histories, found = [list(range(SYSTEM)) for _ in range(3)], list[tuple[str, int, int]]()
    fresh = iter(range(SYSTEM, 10_000))
    for turn in (1, 2):
        for chat, history in enumerate(histories, 1):
            history += [next(fresh) for _ in range(QUESTION)]
            request = Request([*history], ANSWER)
            memory.admit(request)
            found.append((f"chat {chat}, turn {turn}", request.num_computed_tokens, request.num_uncomputed_tokens))
            while len(request.output) < ANSWER:
                memory.reserve(request, request.num_uncomputed_tokens)
                request.num_computed_tokens = request.num_tokens
                request.output.append(next(fresh))
            memory.release(request)
            history += request.output

    def draw(canvas: Canvas) -> None:
        left = 98.0
        scale = (canvas.width - left - 34) / max(hit + read for _, hit, read in found)
        for row, (name, hit, read) in enumerate(found):
            top = row * (BAR + 8)
            canvas.text(left - 8, top + FONT - 1, name, "small", "end")
            if hit:
                canvas.rect(left, top, hit * scale, BAR, "hollow")
                canvas.text(left + hit * scale / 2, top + FONT - 2, str(hit), "small", "middle")
            canvas.rect(left + hit * scale, top, read * scale, BAR, "fill")
            canvas.text(left + (hit + read) * scale + 6, top + FONT - 2, str(read), "small")
        level = canvas.bottom + 10
        for at, (looks, name) in enumerate((("hollow", "cached"), ("fill", "computed"))):
            canvas.rect(left + 90 * at, level, BAR, SMALL, looks)
            canvas.text(left + 90 * at + BAR + 6, level + SMALL - 1, name, "small")

    rows = "; ".join(f"{name}: {hit} cached, {read} computed" for name, hit, read in found)
    caption = (
        f"Cached and computed tokens of each prompt. The system prompt has {SYSTEM} tokens, each question {QUESTION} "
        f"and each answer {ANSWER}, and a page holds {CHAT_PAGE} tokens. {memory.hit_tokens} of "
        f"{memory.queried_tokens} prompt tokens were cached, a hit rate of {100 * memory.hit_rate:.0f} %."
    )
    return at_both_widths(draw).figure("chats-3-5", "Prefix-cache hits of six prompts", f"{rows}.", caption)


class Replay:
    """The solution's prefix cache, driven by the widget's actions; no model computes anything."""

    def __init__(self) -> None:
        from tiny_llm_solution.prefix.kv_cache import PrefixKVCache

        self.words = sorted({word for texts in REQUESTS.values() for text in texts for word in text.split()})
        self.memory = PrefixKVCache(SimpleNamespace(page_size=PAGE, pages=POOL))
        self.running, self.preempted = dict[int, Any](), dict[int, Any]()

    def tokens(self, text: str) -> list[int]:
        """Return a token per word."""
        return [self.words.index(word) for word in text.split()]

    def act(self, action: str, number: int) -> bool:
        """Admit a request and compute its prompt, or compute its answer and release it; return whether it had pages."""
        from tiny_llm_solution.serving.request import Request

        prompt, answer = map(self.tokens, list(REQUESTS.values())[number])
        if action == "admit":
            request = self.preempted.get(number) or Request(prompt, len(answer))
            if not self.memory.admit(request):
                return False
            self.preempted.pop(number, None)
            request.num_computed_tokens = request.num_tokens
            request.output.append(answer[len(request.output)])
            self.running[number] = request
            return True
        request, enough = self.running.pop(number), True
        for token in answer[len(request.output) :]:
            enough = self.memory.reserve(request, 1)
            if not enough:
                self.preempted[number] = request
                break
            request.num_computed_tokens = request.num_tokens
            request.output.append(token)
        self.memory.release(request)
        return enough


def prefix_tree() -> str:
    """Return the widget, and a table of its example."""
    from tiny_llm_solution.prefix.node import subtree_pages

    replay, rows, hits = Replay(), list[list[str]](), 0
    memory = replay.memory
    for action, number in DEMO:
        replay.act(action, number)
        found = str(memory.hit_tokens - hits) if action == "admit" else ""
        hits = memory.hit_tokens
        name, (prompt, answer) = list(REQUESTS.items())[number]
        text = f"{action} {name}: {prompt if action == 'admit' else answer}"
        rows.append([text, found, str(len(subtree_pages(memory.tree.root))), str(memory.pool.num_free)])
    requests = [{"name": name, "prompt": p.split(), "answer": a.split()} for name, (p, a) in REQUESTS.items()]
    data = {"page_size": PAGE, "pages": POOL, "requests": requests, "demo": DEMO}
    head = ["action", "tokens found", "pages in the tree", "free pages"]
    return element("prefix-tree", data, table(f"Six requests and a pool of {POOL} pages", head, rows))

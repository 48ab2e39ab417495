"""Day 5's pictures: a radix tree that grows and evicts, and what chats with one system prompt find of their prompts."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tiny_llm_course.dev.book.drawing import Canvas, flow
from tiny_llm_course.dev.book.drawing.canvas import FONT, SMALL
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


def generated_parts() -> Parts:
    """Both are traces of the solution."""
    return {"tree": tree(), "chats": chats()}


def tree() -> str:
    """The tree after each text, and after an eviction."""
    from tiny_llm_solution.paged.pool import PagePool
    from tiny_llm_solution.prefix.eviction import evict
    from tiny_llm_solution.prefix.tree import RadixTree

    words = sorted({word for _, text in TEXTS for word in text.split()})
    pool = PagePool(10)
    growing, figures = RadixTree(pool, PAGE), []
    for number, (what, text) in enumerate(TEXTS, 1):
        tokens = [words.index(word) for word in text.split()]
        if what == "+":
            own = pool.take(len(tokens) // PAGE)
            kept = growing.insert(tokens, own)
            pool.drop(own)
            found = sum(page not in own for page in kept)
            new = _pages(len(kept) - found)
            told = f"Call {number}: <i>{text}</i> is inserted. Found: {_pages(found)}. New: {new}."
        else:
            told = f"Call {number}: <i>{text}</i> is looked for. Found: {_pages(len(growing.match(tokens)))}."
        figures.append(_picture(growing.root, words, str(number), told))
    gone = evict(growing, 3)
    told = f"Three pages are wanted: {_listed(gone)} go, in this order. {pool.free} of {pool.pages} pages are free now."
    figures.append(_picture(growing.root, words, "evicted", told))
    return "\n".join(figures)


def _pages(count: int) -> str:
    return f"{count} page{'s' * (count != 1)}"


def _listed(pages: Sequence[int]) -> str:
    return " and ".join((", ".join(map(str, pages[:-1])), str(pages[-1])))


def _picture(root: Any, words: Sequence[str], name: str, caption: str) -> str:
    """Each edge below the one that it hangs from, with its tokens, its pages, and the call in which it was used."""
    grid = [[""] * _wide(root) for _ in range(_deep(root))]
    boxes, arrows, described = {"root": "root"}, list[tuple[str, str]](), list[str]()

    def place(edge: Any, named: str, level: int, left: int) -> None:
        for column in range(left, left + _wide(edge)):
            grid[level][column] = named
        for child in edge.children.values():
            text, own = " ".join(words[token] for token in child.tokens), f"{named} {child.pages[0]}"
            pages = f"page{'s' * (len(child.pages) != 1)} {' '.join(map(str, child.pages))}"
            boxes[own] = f"{text}\n{pages}\nused {child.used}"
            described.append(f"{text}, {pages}, used in call {child.used}")
            arrows.append((named, own))
            place(child, own, level + 1, left)
            left += _wide(child)

    place(root, "root", 0, 0)
    canvas = Canvas()
    flow(canvas, grid, boxes, arrows)
    about = f"A root, and below it: {'; '.join(described)}."
    return canvas.figure(f"tree-3-5-{name}", "A radix tree", about, caption)


def _wide(edge: Any) -> int:
    """How many columns an edge takes with all that hangs from it."""
    return max(1, sum(map(_wide, edge.children.values())))


def _deep(edge: Any) -> int:
    """How many rows."""
    return 1 + max(map(_deep, edge.children.values()), default=0)


def chats() -> str:
    """Three chats of two turns each, in turn: of each prompt, what is found and what is read."""
    from tiny_llm_solution.prefix.memory import PrefixMemory
    from tiny_llm_solution.serving.request import Request

    memory = PrefixMemory(SimpleNamespace(page=CHAT_PAGE, pages=40))
    histories, found = [list(range(SYSTEM)) for _ in range(3)], list[tuple[str, int, int]]()
    fresh = iter(range(SYSTEM, 10_000))
    for turn in (1, 2):
        for chat, history in enumerate(histories, 1):
            history += [next(fresh) for _ in range(QUESTION)]
            request = Request([*history], ANSWER)
            memory.begin(request)
            found.append((f"chat {chat}, turn {turn}", request.read, request.unread))
            while len(request.output) < ANSWER:
                memory.reserve(request, request.unread)
                request.read = request.length
                request.output.append(next(fresh))
            memory.release(request)
            history += request.output
    canvas, left = Canvas(), 98.0
    scale = (WIDTH - 40) / max(hit + read for _, hit, read in found)
    for row, (name, hit, read) in enumerate(found):
        top = row * (BAR + 8)
        canvas.text(left - 8, top + FONT - 1, name, "small", "end")
        if hit:
            canvas.rect(left, top, hit * scale, BAR, "hollow")
            canvas.text(left + hit * scale / 2, top + FONT - 2, str(hit), "small", "middle")
        canvas.rect(left + hit * scale, top, read * scale, BAR, "fill")
        canvas.text(left + (hit + read) * scale + 6, top + FONT - 2, str(read), "small")
    level = canvas.bottom + 10
    for at, (looks, name) in enumerate((("hollow", "found"), ("fill", "read"))):
        canvas.rect(left + 90 * at, level, BAR, SMALL, looks)
        canvas.text(left + 90 * at + BAR + 6, level + SMALL - 1, name, "small")
    rows = "; ".join(f"{name}: {hit} found, {read} read" for name, hit, read in found)
    caption = (
        f"A system prompt of {SYSTEM} tokens, questions of {QUESTION}, answers of {ANSWER}, pages of {CHAT_PAGE}. Of "
        f"{memory.asked} tokens that were asked for, {memory.hit} were found: a hit rate of "
        f"{100 * memory.hit_rate:.0f} percent."
    )
    return canvas.figure("chats-3-5", "What six prompts find", f"{rows}.", caption)

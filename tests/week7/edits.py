"""Texts for task 7.4.3, a user who approves, and a journal that looks at the file."""

EDITS = {
    "one line of three": (b"one\ntwo\nthree\n", "two", "2"),
    "several lines": (b"a\nb\nc\nd\n", "b\nc\n", "B\n"),
    "the beginning": (b"a\nb\n", "a\n", "a\na2\n"),
    "the end": (b"a\nb\n", "b\n", "b\nc\n"),
    "no line break at the end": (b"a\nb", "b", "c"),
    "a line break added": (b"a\nb", "b", "b\n"),
    "a line break removed": (b"a\nb\n", "b\n", "b"),
    "carriage returns": (b"a\r\nb\r\nc\r\n", "b\r\n", "B\r\n"),
    "a single carriage return": (b"a\rb\n", "b", "c"),
    "a byte order mark": (b"\xef\xbb\xbfa\nb\n", "b", "c"),
    "accents": ("d\u00e9j\u00e0\nvu \U0001f438\n".encode(), "\U0001f438", "\u72d7"),
    "all of it": (b"abc", "abc", ""),
    "blanks": (b"if a:\n    b\n\tc\n", "    b\n", "\tb\n"),
    "a pattern's characters": (b"a.*b\naxb\n", "a.*b", r"\1\g<0>"),
    "other separators": ("a\u2028b\x0cc\n".encode(), "b", "B"),
    "a longer word once": (b"cat\nconcatenate\n", "concat", "x"),
}
# (content, old, how often, the lines of the first ten)
AMBIGUOUS = {
    "two lines": (b"a\nb\na\n", "a", 2, "1, 3"),
    "one line": (b"a a\n", "a", 2, "1, 1"),
    "overlapping": (b"aaa\n", "aa", 2, "1, 1"),
    "overlapping lines": (b"x\n\n\n\ny\n", "\n\n", 3, "1, 2, 3"),
    "three of them": (b"x = 1\ny\nz\nx = 1\nx = 1\n", "x = 1", 3, "1, 4, 5"),
    "twelve of them": (b"a\n" * 12, "a", 12, "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"),
    "in words": (b"cat\nconcatenate\n", "cat", 2, "1, 2"),
}


class User:
    """Answers as told, notes what was asked, and does something meanwhile."""

    def __init__(self, answer=True, during=None):
        self.answer, self.during, self.asked = answer, during, []

    def __call__(self, action, detail):
        self.asked.append((action, detail))
        if self.during:
            self.during()
        return self.answer


def names(folder):
    """Return the names in a folder, to see whether a file was left over."""
    return sorted(path.name for path in folder.iterdir())

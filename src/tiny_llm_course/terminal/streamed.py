"""Text that comes bit by bit, broken between words where the terminal ends."""

from collections.abc import Callable

from .wrapping import cells, wide


class Flow:
    """Hands text on to `write`. A word waits until it has ended: only then is it known which line it is for."""

    def __init__(self, write: Callable[[str], None], columns: int | None) -> None:
        self._write = write
        self._columns = columns  # None: no terminal, so all is handed on as it comes
        self._at = 0  # how far the line has come
        self._gap = ""  # the spaces before the word that waits
        self._word = ""

    def add(self, text: str) -> None:
        """Take some more text."""
        if self._columns is None:
            self._write(text)
        elif said := "".join(self._let_out(letter, self._columns) for letter in text):
            self._write(said)

    def end(self) -> None:
        """Nothing more comes: write what waits."""
        if self._columns is not None:
            self._write(self._placed(self._columns))

    def _let_out(self, letter: str, columns: int) -> str:
        """What can be written now that this letter is known."""
        if not letter.isspace():
            before = self._placed(columns) if wide(letter) else ""  # it may begin a line: it ends what came before
            self._word += letter
            ended = wide(letter) or cells(self._word) >= columns
            return before + (self._placed(columns) if ended else "")
        said = self._placed(columns)
        if letter == "\n":
            self._at, self._gap = 0, ""
            return f"{said}\n"
        self._gap += letter
        return said

    def _placed(self, columns: int) -> str:
        """The word that waits, in this line or the next one."""
        if not self._word:
            return ""
        gap, word, self._gap, self._word = self._gap, self._word, "", ""
        begin = len(f"{' ' * self._at}{gap}".expandtabs(8))
        if begin + cells(word) > columns:
            gap, begin = "\n" if self._at else "", 0
        self._at = begin + cells(word)
        return gap + word

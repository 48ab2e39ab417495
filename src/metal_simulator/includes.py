"""Replaces each #include by the text of the file, which needs the same translation as the including text."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import mlx

SHIPPED = [Path(folder) / "include" for folder in mlx.__path__]  # the headers that MLX's wheel contains
_KERNELS = "mlx/backend/metal/kernels/"
UTILS = f'#line 1 "{_KERNELS}utils.h"'  # in an expanded text that includes this file
# Files whose content metal/ defines.
_THERE = re.compile(rf"metal_\w+|simd/\w+\.h|{_KERNELS}(?:bf16_math|complex|logging|steel/utils/type_traits)\.h")
_BEGIN = re.compile(r'^#line 1 "(.+)"$', re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>)', re.MULTILINE)


def expanded(text: str, name: str, folder: Path | None = None) -> str:
    """Return a text with the files that it includes, each once; #line directives keep the lines' own files.

    A quoted file is searched in the including file's folder, `folder` for the text itself; every file among the headers
    of MLX's wheel. The compiler reports a file that is not found.
    """
    return "".join(_expanded(text, name, folder, set()))


def included(text: str) -> dict[str, str]:
    """Return the texts of the files that an expanded text includes, by their names in its #line directives."""
    files = {
        name: next((folder / name for folder in SHIPPED if (folder / name).is_file()), Path(name))
        for name in _BEGIN.findall(text)
    }
    return {name: file.read_text(encoding="utf-8") for name, file in files.items() if file.is_file()}


def _expanded(text: str, name: str, folder: Path | None, seen: set[Path]) -> Iterator[str]:
    end = 0
    for found in _INCLUDE.finditer(text):
        wanted = found["quoted"] or found["angled"]
        file = _file(wanted, [folder] if folder and found["quoted"] else [])
        if file is None and not _THERE.fullmatch(wanted):
            continue
        yield text[end : found.start()]
        end = found.end()
        if file and file not in seen:
            seen.add(file)
            yield f'#line 1 "{_shown(file)}"\n'
            yield from _expanded(file.read_text(encoding="utf-8"), _shown(file), file.parent, seen)
            yield f'\n#line {text.count(chr(10), 0, end) + 1} "{name}"\n'
    yield text[end:]


def _file(wanted: str, own: Sequence[Path]) -> Path | None:
    """Return the included file; None if it is not found, or if metal/ replaces it."""
    if _THERE.fullmatch(wanted):
        return None
    return next((file.resolve() for folder in [*own, *SHIPPED] if (file := folder / wanted).is_file()), None)


def _shown(file: Path) -> str:
    shipped = next((folder for folder in SHIPPED if file.is_relative_to(folder.resolve())), None)
    return file.relative_to(shipped.resolve()).as_posix() if shipped else str(file)

"""Finds the `[[kernel]]` functions of a Metal file, and their parameters."""

import re
from dataclasses import dataclass

import mlx.core as mx

from .signature import ATTRIBUTES, TYPES
from .translation import without_comments

_DTYPES = {name: dtype for dtype, name in TYPES.items()} | {
    "half": mx.float16,
    "bfloat": mx.bfloat16,
    **{
        name: dtype
        for kind in (8, 16, 32, 64)
        for name, dtype in (
            ({8: "char", 16: "short", 32: "int", 64: "long"}[kind], getattr(mx, f"int{kind}")),
            ({8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}[kind], getattr(mx, f"uint{kind}")),
        )
    },
}
_KERNEL = re.compile(r"(?:\[\[\s*kernel\s*\]\]|\bkernel\b)\s+(?:\[\[.*?\]\]\s*)*void\s+(\w+)\s*\(")
_NAMED = re.compile(
    r'host_name\(\s*"([^"]+)"\s*\)\s*\]\]\s*\[\[\s*kernel\s*\]\]\s*(?:void\s|decltype\s*\([^;]*?\)\s)\s*(\w+\s*<[^;(]*>)'
)
_ATTRIBUTE = re.compile(r"\[\[\s*(\w+)(?:\s*\(\s*(\w+)\s*\))?\s*\]\]")
_ELEMENT = re.compile(r"(?:metal::)?(?:atomic_|atomic<|packed_|vec<)?(\w+?)(?:[234]|\s*,\s*[234])?>?")


@dataclass(frozen=True)
class Declared:
    """A parameter: a buffer, threadgroup memory, or an attribute of the thread."""

    name: str
    type: str  # without address space, `const`, `*` and `&`
    about: str  # "buffer", "threadgroup", or a name in ATTRIBUTES
    number: int = 0  # of the buffer or the threadgroup memory
    is_reference: bool = False
    reads_only: bool = False
    constant: bool = False

    @property
    def dtype(self) -> mx.Dtype | None:
        """Return the type of its elements, of a vector's elements; None if it is no type of MLX's."""
        found = _ELEMENT.fullmatch(self.type)
        return _DTYPES.get(found[1]) if found else None


def kernels(text: str) -> tuple[dict[str, tuple[Declared, ...]], dict[str, str]]:
    """Return the kernels with their parameters, and by each `host_name` the instance of a template that has it.

    Raises ValueError for textures and function constants, which the simulator does not support.
    """
    plain = without_comments(text)
    if "function_constant" in plain:
        raise ValueError(
            "The file has function constants, which the simulator does not support: use templates or macros."
        )
    found = {match[1]: _parameters(match[1], _inside(plain, match.end())) for match in _KERNEL.finditer(plain)}
    named = {match[1]: re.sub(r"\s+", " ", match[2]) for match in _NAMED.finditer(plain)}
    return found, named


def _parameters(kernel: str, text: str) -> tuple[Declared, ...]:
    made: list[Declared] = []
    for part in filter(str.strip, _parts(text)):
        attributes = [found for found in _ATTRIBUTE.findall(part) if found[0] not in ("maybe_unused", "host_name")]
        about, number = attributes[0] if attributes else ("buffer", "")
        words = _ATTRIBUTE.sub("", part).strip()
        name = re.findall(r"\w+", words)[-1]
        if about not in ("buffer", "threadgroup", *ATTRIBUTES):
            raise ValueError(f"{kernel}: {name} is a [[{about}]], which the simulator does not support.")
        if about in ("buffer", "threadgroup") and not number:  # Metal gives it the next number
            number = str(sum(each.about == about for each in made))
        if number and not number.isdigit():
            raise ValueError(f"{kernel}: the number of {name} is {number}, and must be written as a number.")
        kind = re.sub(
            r"\b(?:const|device|constant|threadgroup|thread|volatile|restrict)\b|[*&]", " ", words[: words.rindex(name)]
        )
        constant = bool(re.search(r"\bconstant\b", words))
        reads_only = constant or bool(re.search(r"\bconst\b", words))
        made.append(Declared(name, " ".join(kind.split()), about, int(number or 0), "&" in words, reads_only, constant))
    return tuple(made)


def _inside(text: str, start: int) -> str:
    """Return the text up to the parenthesis that closes the one before `start`."""
    depth, end = 1, start
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start : end - 1]


def _parts(text: str) -> list[str]:
    """Split a list of parameters at its outer commas."""
    depth, parts = 0, [""]
    for letter in text:
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts

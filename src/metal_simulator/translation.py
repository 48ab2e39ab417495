"""Translates a Metal kernel to C++. Nearly all of it is C++ already; metal/metal.h defines the rest.

Line numbers are preserved, so that messages of the compiler and the runtime refer to the kernel's own text.
"""

import re
from pathlib import Path

from .includes import UTILS, expanded
from .signature import ATTRIBUTES, Signature

SOURCE, HEADER = "kernel-source", "kernel-header"  # the names of the two texts, for a compiler

# `threadgroup float tile[8][8], rest;` and not `threadgroup float* p = ...;`: a variable, and no pointer to one.
_TYPE = r"(?:const\s+)?(?:metal::)?[A-Za-z_]\w*(?:\s*<[^;{}()]*?>)?"
_ONE = r"[A-Za-z_]\w*(?:\s*\[[^;{}\]]*\])*"
_SHARED = re.compile(rf"\bthreadgroup\s+(?P<type>{_TYPE})\s+(?P<all>{_ONE}(?:\s*,\s*{_ONE})*)\s*;")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)  # or a string, which stays
# Before a specialization of an operator within its class, which GCC rejects: without it, an overload that is preferred.
_WITHIN = re.compile(r"\btemplate\s*<\s*>(?=\s+[\w\s]+\boperator\s*\(\s*\))")
_ATTRIBUTE = re.compile(r"\[\[[^\[\]]*\]\]")
_NAME = re.compile(r"[A-Za-z_]\w*")
# A number with a point or an exponent is a float in Metal, which has no double.
_REAL = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?(?![\w.])")

_MLX = f'#line 1 "mlx.h"\n{(Path(__file__).parent / "metal" / "mlx.h").read_text(encoding="utf-8")}'
_FAST = "#define __FAST_MATH__ 1\n"

_ENTRY = """
extern "C" __attribute__((visibility("default"), no_sanitize("thread")))
void simulator_entry(void** b, const simulator::Thread* me) {{
    const simulator::Thread& t = *me;
    [[maybe_unused]] auto three = [](simulator::Three v) {{ return metal::vec<unsigned, 3>(v.x, v.y, v.z); }};
    [[maybe_unused]] auto volume = [](simulator::Three v) {{ return v.x * v.y * v.z; }};
    (void)t, (void)b;
    {call};
}}
"""


def translated(made: Signature, source: str, header: str, mode: str = "safe") -> str:
    """Return a C++ file with a function `simulator_entry`, which runs one thread of the kernel."""
    heads = [f"{'const ' * p.reads_only}{p.type} {p.name}" for p in made.parameters]
    heads += [f"{ATTRIBUTES[name][0]} {name}" for name in made.attributes]
    values = [
        f"{'*' * p.type.endswith('&')}({_pointer(p.type, p.reads_only)})b[{i}]" for i, p in enumerate(made.parameters)
    ]
    values += [ATTRIBUTES[name][1] for name in made.attributes]
    body = f"{made.template_head}static void simulated({', '.join(heads)}) {{\n"
    body += f'#line 1 "{SOURCE}"\n{in_cpp(expanded(source, SOURCE))}\n#line 1 "after the kernel"\n}}\n'
    return f'{preamble(header, HEADER, mode)}\n#line 1 "before the kernel"\n{body}' + entry(
        f"simulated{made.template_values}({', '.join(values)})"
    )


def entry(call: str) -> str:
    """Return the function that the runtime calls for each thread."""
    return _ENTRY.format(call=call)


def preamble(text: str, name: str, mode: str, folder: Path | None = None) -> str:
    """Return what MLX puts before every kernel, and a text with the files that it includes."""
    whole = expanded(text, name, folder)
    begin = _FAST * (mode == "fast") + _MLX * (UTILS not in whole)
    return f'{begin}#pragma GCC poison double\n#line 1 "{name}"\n{in_cpp(whole)}'


def in_cpp(text: str) -> str:
    """Return a piece of Metal as C++: float literals, and variables in threadgroup memory."""
    plain = _WITHIN.sub("", _ATTRIBUTE.sub("", without_comments(text)))
    return _SHARED.sub(_declared, _REAL.sub(lambda found: found[0] + "f", plain))


def without_comments(text: str) -> str:
    """Return a text with only the line breaks of its comments."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " " + "\n" * found[0].count("\n"), text)


def _pointer(kind: str, reads_only: bool) -> str:
    return f"{'const ' * reads_only}{kind[:-1]}*"


def _declared(found: re.Match[str]) -> str:
    """Return a static variable for each declaration, and a reference to it under its own name."""
    made = []
    for one in re.split(r",(?![^\[]*\])", found["all"]):
        name = _NAME.search(one)
        assert name is not None
        extents = re.sub(r"\[([^\]]*)\]", r"[(\1)]", one[name.end() :].strip())  # a bare `>` would end the type
        kind = f"metal::Shared<std::type_identity_t<{found['type']}>{extents}>"
        variable = f"simulator_{name[0]}"
        made.append(f'static {kind} {variable}; auto& {name[0]} = {variable}.declare("{name[0]}");')
    return " ".join(made) + "\n" * (found[0].count("\n") - "".join(made).count("\n"))

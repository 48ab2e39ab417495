"""The function that MLX makes of a kernel's source: its parameters, in its order, and the text that it prints.

MLX puts the source into the body of a function and writes the head by these rules. Inputs come first, each followed by
what the source asks of it by the name: `x_shape`, `x_strides`, `x_ndim`; then outputs; then the attributes of a thread
whose names occur in the source. An input of no dimension is a reference, one of fewer than 8 elements is `constant`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import mlx.core as mx

TYPES = {
    mx.bool_: "bool",
    mx.uint8: "uint8_t",
    mx.uint16: "uint16_t",
    mx.uint32: "uint32_t",
    mx.uint64: "uint64_t",
    mx.int8: "int8_t",
    mx.int16: "int16_t",
    mx.int32: "int32_t",
    mx.int64: "int64_t",
    mx.float16: "float16_t",
    mx.float32: "float",
    mx.bfloat16: "bfloat16_t",
    mx.complex64: "complex64_t",
}
FEW = 8  # inputs with fewer elements are `constant`

# Each attribute of a thread: its type, and its value of `t`, a Thread of runtime/interface.h.
ATTRIBUTES = {
    "dispatch_quadgroups_per_threadgroup": ("uint", "(volume(t.largest_group_size) + 3) / 4"),
    "dispatch_simdgroups_per_threadgroup": ("uint", "(volume(t.largest_group_size) + 31) / 32"),
    "dispatch_threads_per_threadgroup": ("uint3", "three(t.largest_group_size)"),
    "grid_origin": ("uint3", "uint3(0)"),
    "grid_size": ("uint3", "three(t.grid)"),
    "quadgroup_index_in_threadgroup": ("uint", "t.index / 4"),
    "quadgroups_per_threadgroup": ("uint", "(t.count + 3) / 4"),
    "simdgroup_index_in_threadgroup": ("uint", "t.index / 32"),
    "simdgroups_per_threadgroup": ("uint", "(t.count + 31) / 32"),
    "thread_execution_width": ("uint", "32"),
    "thread_index_in_quadgroup": ("uint", "t.index % 4"),
    "thread_index_in_simdgroup": ("uint", "t.index % 32"),
    "thread_index_in_threadgroup": ("uint", "t.index"),
    "thread_position_in_grid": ("uint3", "three(t.in_grid)"),
    "thread_position_in_threadgroup": ("uint3", "three(t.in_group)"),
    "threadgroup_position_in_grid": ("uint3", "three(t.group)"),
    "threadgroups_per_grid": ("uint3", "three(t.groups)"),
    "threads_per_grid": ("uint3", "three(t.grid)"),
    "threads_per_simdgroup": ("uint", "32"),
    "threads_per_threadgroup": ("uint3", "three(t.group_size)"),
}

Argument = mx.Dtype | int | bool


@dataclass(frozen=True)
class Parameter:
    """A parameter of the function, which takes a buffer."""

    name: str
    type: str  # with `*` or `&`
    constant: bool  # in constant memory
    reads_only: bool
    of: int  # the number of the input that it is or describes, or of the output
    about: str  # "input", "output", "shape", "strides" or "ndim"

    @property
    def metal(self) -> str:
        """Return the declaration as MLX writes it, without the buffer's number."""
        return f"{'const ' * self.reads_only}{'constant' if self.constant else 'device'} {self.type} {self.name}"


@dataclass(frozen=True)
class Signature:
    """The function's head for these input types and template arguments."""

    name: str
    parameters: tuple[Parameter, ...]
    attributes: tuple[str, ...]
    template: tuple[tuple[str, str, str], ...]  # kind, name, value

    @property
    def template_head(self) -> str:
        """Return `template <typename T, int N>`, or ""."""
        return f"template <{', '.join(f'{kind} {name}' for kind, name, _ in self.template)}>\n" if self.template else ""

    @property
    def template_values(self) -> str:
        """Return `<float, 4>`, or ""."""
        return f"<{', '.join(value for *_, value in self.template)}>" if self.template else ""

    def metal(self, source: str, header: str) -> str:
        """Return the text that MLX generates, and prints if verbose."""
        heads = [f"  {p.metal} [[buffer({i})]]" for i, p in enumerate(self.parameters)]
        heads += [f"  {ATTRIBUTES[name][0]} {name} [[{name}]]" for name in self.attributes]
        text = f"{header}{self.template_head}[[kernel]] void {self.name}(\n" + ",\n".join(heads)
        text += f") {{\n{source}\n}}\n"
        if self.template:
            made = f"{self.name}{self.template_values}"
            text += f'\ntemplate [[host_name("{self.name}")]] [[kernel]] decltype({made}) {made};\n'
        return text


def signature(
    kernel: str,
    source: str,
    inputs: Sequence[tuple[str, mx.array]],
    outputs: Sequence[tuple[str, mx.Dtype]],
    template: Sequence[tuple[str, Argument]],
    atomic_outputs: bool,
) -> Signature:
    """Return the function for a call; raise ValueError for a template argument that is no dtype, int or bool."""
    parameters = []
    for i, (name, array) in enumerate(inputs):
        mark = "&" if array.ndim == 0 else "*"
        parameters.append(Parameter(name, TYPES[array.dtype] + mark, array.size < FEW, True, i, "input"))
        if array.ndim == 0:
            continue
        for about, kind in (("shape", "int*"), ("strides", "int64_t*"), ("ndim", "int&")):
            if f"{name}_{about}" in source:
                parameters.append(Parameter(f"{name}_{about}", kind, True, True, i, about))
    for i, (name, dtype) in enumerate(outputs):
        kind = f"atomic<{TYPES[dtype]}>" if atomic_outputs else TYPES[dtype]
        parameters.append(Parameter(name, kind + "*", False, False, i, "output"))
    attributes = tuple(name for name in ATTRIBUTES if name in source)
    arguments = tuple((_kind(value), name, _text(value)) for name, value in template)
    types = [_short(array) for _, array in inputs] + [TYPES[dtype] for _, dtype in outputs]
    values = "".join("_" + re.sub(r"\W", "_", value) for *_, value in arguments)
    made = f"custom_kernel_{kernel}{'_' * bool(arguments)}{values}_{'_'.join(types)}"
    return Signature(made, tuple(parameters), attributes, arguments)


def _short(array: mx.array) -> str:
    return TYPES[array.dtype] + "c" * (array.size < FEW) * (array.ndim > 0) + "s" * (array.ndim == 0)


def _kind(value: Argument) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, mx.Dtype):
        return "typename"
    raise ValueError("[metal_kernel] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.")


def _text(value: Argument) -> str:
    return TYPES[value] if isinstance(value, mx.Dtype) else str(int(value))

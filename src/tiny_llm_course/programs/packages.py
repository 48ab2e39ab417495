"""Import the learner's `tiny_llm`, and the solution as `tiny_llm_solution`.

A learner's file that cannot be imported must not disable the day's other files: a module takes its place that raises
the import's error whenever something of it is used.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import _lru_cache_wrapper, lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from ..course.entities import Target
from ..course.findings import Finding
from ..course.registry import LearnerError as LearnerError
from ..paths import SOLUTION
from .parts import exchanged

SOLUTION_NAME = "tiny_llm_solution"
Patch = Callable[[ModuleType], None]


class NotImportable(Exception):
    """Something was used of a file that cannot be imported; `cause` is what the import raised, or what is known."""

    def __init__(self, module: str, cause: BaseException | Finding | str) -> None:
        super().__init__(f"{Target(module, '').file} cannot be imported: {cause}")
        self.module = module
        self.cause = cause


class BrokenModule(ModuleType):
    """A placeholder module that raises as soon as something of it is used."""

    def __init__(self, name: str, error: NotImportable) -> None:
        super().__init__(name)
        self.error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # A new one each time: raised again and again, one exception would drag an ever longer traceback along.
        raise NotImportable(self.error.module, self.error.cause)


class _PatchingFinder(MetaPathFinder):
    """Patch modules after their own lines have run, by full name or by name below `tiny_llm`, solution or stubs."""

    def __init__(self, kind: str, patches: Mapping[str, Patch]) -> None:
        self.kind, self._patches = kind, patches

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, module = fullname.partition(".")
        patch = self._patches.get(fullname) or (package.startswith("tiny_llm") and self._patches.get(module))
        spec = PathFinder.find_spec(fullname, path, target) if patch else None
        if patch and spec and isinstance(loader := spec.loader, SourceFileLoader):
            run = loader.exec_module

            def run_and_patch(module: ModuleType) -> None:
                run(module)
                patch(module)

            loader.exec_module = run_and_patch  # type: ignore[method-assign]
        return spec


def install_patches(kind: str, patches: Mapping[str, Patch]) -> None:
    """Patch modules right after their own lines have run, from now on; earlier patches of this kind are removed."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "kind", "") != kind]
    if patches:
        sys.meta_path.insert(0, _PatchingFinder(kind, patches))


def import_learner(module: str) -> None:
    """Import `tiny_llm.<module>`, or put a BrokenModule in place of it or of the folder that fails."""
    name, folder = f"tiny_llm.{module}", module.rpartition(".")[0]
    if name in sys.modules:
        return
    if folder:
        import_learner(folder)
        if isinstance(broken := sys.modules[f"tiny_llm.{folder}"], BrokenModule):
            put_broken(module, broken.error)
            return
    try:
        importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: sys.exit() in a file is a mistake like any other
        put_broken(module, error if isinstance(error, NotImportable) else NotImportable(module, error))


def put_broken(module: str, error: NotImportable) -> None:
    """Let `tiny_llm.<module>` raise this error whenever something of it is used."""
    placeholder = BrokenModule(f"tiny_llm.{module}", error)
    sys.modules[placeholder.__name__] = placeholder
    folder, _, name = placeholder.__name__.rpartition(".")
    if folder in sys.modules:
        setattr(sys.modules[folder], name, placeholder)


def put_package(folder: Path) -> None:
    """Make the placeholders importable although `tiny_llm` itself is not."""
    if "tiny_llm" not in sys.modules:
        package = ModuleType("tiny_llm")
        package.__path__ = [str(folder)]
        sys.modules["tiny_llm"] = package


def load_package(name: str, folder: Path) -> ModuleType:
    """Load the package in `folder` under another name, beside whatever `tiny_llm` is in this process."""
    if name not in sys.modules:
        file, inside = folder / "__init__.py", [str(folder)]
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
        assert spec
        assert spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def load_solution() -> ModuleType:
    """Load the solution as `tiny_llm_solution`."""
    return load_package(SOLUTION_NAME, SOLUTION)


def program(target: Target, package: str = "tiny_llm") -> Any:
    """Return the function, method or class that a target names."""
    if package == SOLUTION_NAME:
        load_solution()
    found: Any = importlib.import_module(f"{package}.{target.module}")
    for part in target.name.split("."):
        found = getattr(found, part)
    return found


Program = Callable[..., Any]


def installed(target: Target, replacement: Program, package: str = "tiny_llm") -> AbstractContextManager[None]:
    """Replace a target in a package while the block runs, wherever and as whatever it was imported.

    Not in the replacement's own module: what it calls by the target's name is the original.
    """
    return all_installed({target: replacement}, package)


@contextmanager
def all_installed(replacements: Mapping[Target, Program], package: str = "tiny_llm") -> Iterator[None]:
    """Replace several targets while the block runs."""
    places: list[tuple[Any, str, Any, Any]] = []  # a module or class, a name in it, what it stands and shall stand for
    functions: dict[int, tuple[Any, Any]] = {}
    for target, replacement in replacements.items():
        original = program(target, package)
        *path, last = target.name.split(".")
        if path:
            places.append((program(Target(target.module, ".".join(path)), package), last, original, replacement))
        else:
            functions[id(original)] = original, replacement
    for module in _modules(package):
        found = [(key, functions[id(value)]) for key, value in vars(module).items() if id(value) in functions]
        made_here = {id(value) for value in vars(module).values()} if found else ()
        places += [(module, key, *both) for key, both in found if id(both[1]) not in made_here]
    for holder, key, _, replacement in places:
        setattr(holder, key, replacement)
    _forget(package)
    try:
        with ExitStack() as stack:
            for part in (getattr(each, "part", None) for each in replacements.values()):
                if part:  # of a file in another language, which other parts of it call
                    stack.enter_context(exchanged(package, *part))
            yield
    finally:
        for holder, key, original, _ in places:
            setattr(holder, key, original)
        _forget(package)


def _modules(package: str) -> list[ModuleType]:
    return [sys.modules[name] for name in _names(package, tuple(sys.modules))]


@lru_cache(maxsize=8)
def _names(package: str, imported: tuple[str, ...]) -> list[str]:
    """Return the imported modules' names in a package; cached, as each replacement needs them."""
    return [name for name in imported if name.startswith(f"{package}.")]


def _forget(package: str) -> None:
    """Clear the caches of a package: another program computed their content."""
    for module in _modules(package):
        for value in vars(module).values():
            if type(value) is _lru_cache_wrapper:
                value.cache_clear()

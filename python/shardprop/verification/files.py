"""Files of the user's: a module that registers rules, a generator of calls."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from .._torch import OpOverload
from ..errors import ShardpropError
from ..rules import torch_registry
from .calls.call import Call

__all__ = ["FileError", "generator_of_calls", "import_file", "rules_registered_by"]


# Names of modules that were files of a user's, which another file may take.
_imported: set[str] = set()


class FileError(ShardpropError):
    """A file that is not what it should be."""


def import_file(path: Path) -> ModuleType:
    """The file as a module of its name, its folder on the path as if it had been run; the module
    that there is already if it has been imported before. What it prints goes to stderr: stdout is
    for a report, which may be JSON.

    Raises:
        FileError: there is no such file, or it raises.
    """
    if not path.is_file():
        raise FileError(f"Expected a Python file, got {str(path)!r}, where there is none.")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and _is_of(loaded, path):
        return loaded
    if loaded is not None and path.stem not in _imported:
        raise FileError(
            f"Expected a file whose name is free, got {str(path)!r}: there is a module "
            f"{path.stem!r} already. Give the file another name."
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileError(f"Expected a file that ends in .py, got {str(path)!r}.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as dataclasses and pickle look for it
    _imported.add(path.stem)
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script may end in sys.exit
        sys.modules.pop(path.stem, None)
        raise FileError(
            f"Expected a file that can be imported, got {str(path)!r}, which raises "
            f"{type(error).__name__}: {error}"
        ) from error
    return module


def _is_of(module: ModuleType, path: Path) -> bool:
    return module.__file__ is not None and Path(module.__file__).resolve() == path.resolve()


def rules_registered_by(path: Path, needed: bool = True) -> list[OpOverload]:
    """Import the file and tell for which ops it registered rules, by whatever means torch has.

    Raises:
        FileError: it cannot be imported, or registers nothing where that is `needed`.
    """
    before = {op: torch_registry.rules_of(op) for op in torch_registry.ops_with_a_rule()}
    import_file(path)
    new = [
        op
        for op in torch_registry.ops_with_a_rule()
        if not _same(torch_registry.rules_of(op), before.get(op))
    ]
    if needed and not new:
        raise FileError(
            f"Expected a file that registers rules when it is imported, got {str(path)!r}, "
            "which registers none. Name the ops to validate those that are there already."
        )
    return sorted(new, key=str)


def _same(rules: tuple[object, ...], before: tuple[object, ...] | None) -> bool:
    return before is not None and all(a is b for a, b in zip(rules, before, strict=True))


def generator_of_calls(path: Path) -> Callable[[OpOverload], Iterator[Call]]:
    """The function ``samples(op)`` of a file, which yields Calls or pairs (args, kwargs).

    Raises:
        FileError: the file cannot be imported or has no such function; later, it yields what is no
            call.
    """
    samples: Any = getattr(import_file(path), "samples", None)
    if not callable(samples):
        got = "none" if samples is None else type(samples).__name__
        raise FileError(f"Expected a function samples(op) in {str(path)!r}, got {got}.")

    def calls(op: OpOverload) -> Iterator[Call]:
        given: Iterable[Any] | None = samples(op)
        if given is None:
            return
        for number, item in enumerate(given):
            yield _call(op, item, f"{path.name}, sample {number}")

    return calls


def _call(op: OpOverload, item: Any, origin: str) -> Call:
    if isinstance(item, Call):
        if item.op is not op:
            raise FileError(f"Expected a Call of {op}, got one of {item.op} ({origin}).")
        return item
    if (
        isinstance(item, tuple)
        and len(item) == 2
        and isinstance(item[0], (tuple, list))
        and isinstance(item[1], dict)
    ):
        return Call(op, tuple(item[0]), dict(item[1]), origin)
    raise FileError(
        f"Expected a Call or a pair (args, kwargs), got {type(item).__name__} ({origin}). "
        "A pair is a tuple of a tuple and a dict: yield (a, b), {}."
    )

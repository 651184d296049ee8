"""Compares the stub of a pybind11 module with the module: names, signatures, enums.

pybind11 writes the signature of each function as the first line of its docstring, in Python's own
syntax. So both sides are parsed alike, and compared as `Signature`.
"""

from __future__ import annotations

import ast
import enum
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["faults"]

# What pybind11 accepts for a number; None: with another name beside it.
_ACCEPTED = {"SupportsInt": "int", "SupportsFloat": "float", "SupportsIndex": None}


class Parameter(NamedTuple):
    """One parameter; `types` are the outermost names of its annotation, "object" for any."""

    name: str
    kind: str
    has_default: bool
    types: frozenset[str]


class Signature(NamedTuple):
    """A function, without ``self``."""

    parameters: tuple[Parameter, ...]
    returns: frozenset[str]


def faults(stub: str, module: types.ModuleType) -> list[str]:
    """Where the text of a stub differs from a module."""
    return [*_faults(ast.parse(stub), module)]


def _faults(tree: ast.Module, module: types.ModuleType) -> Iterator[str]:
    functions, classes, values = _members(tree.body)
    stubbed = [*functions, *classes, *values]
    yield from _names("", stubbed, _public_names(vars(module)))
    for name, function in functions.items():
        if hasattr(module, name):
            yield from _signature(name, function, getattr(module, name).__doc__)
    for name, node in classes.items():
        if hasattr(module, name):
            yield from _class(node, getattr(module, name))
    for name, annotation in values.items():
        value = getattr(module, name, None)
        if value is not None and type(value).__name__ not in _types(annotation):
            yield f"{name}: a {type(value).__name__}, and {ast.unparse(annotation)} in the stub"


def _class(node: ast.ClassDef, real: type) -> Iterator[str]:
    bases = [ast.unparse(base) for base in node.bases]
    is_bound = real.__base__ is not None and real.__base__.__name__ == "pybind11_object"
    if bases != [base.__name__ for base in real.__bases__ if not is_bound and base is not object]:
        yield f"{node.name}: a {real.__base__}, and {bases} in the stub"
    if issubclass(real, enum.Enum):
        yield from _enum(node, real)
        return
    functions, _, _ = _members(node.body)
    if is_bound:
        members = {name for name in vars(real) if _is_stubbed(name, vars(real)[name])}
        yield from _names(f"{node.name}.", functions, members)
    else:  # what C makes has no docstrings of its constructor
        yield from _names(f"{node.name}.", _public_names(functions), _public_names(vars(real)))
    for name, function in functions.items():
        found = vars(real).get(name)
        if found is None:
            continue
        is_property = any(ast.unparse(each) == "property" for each in function.decorator_list)
        if is_property != isinstance(found, property):
            yield f"{node.name}.{name}: a property on one side only"
        else:
            text = found.fget.__doc__ if isinstance(found, property) else found.__doc__
            yield from _signature(f"{node.name}.{name}", function, text, is_method=True)


def _enum(node: ast.ClassDef, real: type[enum.Enum]) -> Iterator[str]:
    stubbed = {
        ast.unparse(item.targets[0]): ast.literal_eval(item.value)
        for item in node.body
        if isinstance(item, ast.Assign)
    }
    members = {name: member.value for name, member in real.__members__.items()}
    if stubbed != members:
        yield f"{node.name}: members {members}, and {stubbed} in the stub"


def _signature(
    name: str, node: ast.FunctionDef, text: str | None, is_method: bool = False
) -> Iterator[str]:
    line = (text or "").split("\n")[0].strip()
    line = f"_{line}" if line.startswith("(") else line  # a property has no name there
    real = ast.parse(f"def {line}: ...").body[0]
    assert isinstance(real, ast.FunctionDef)
    stubbed, found = _read(node, is_method), _read(real, is_method)
    if [p[:3] for p in stubbed.parameters] != [p[:3] for p in found.parameters]:
        yield f"{name}: {line}, and ({ast.unparse(node.args)}) in the stub"
        return
    for own, other in zip(stubbed.parameters, found.parameters, strict=True):
        # pybind11 does not say that a pointer may be None.
        if not _agree(own.types - {"None"}, other.types - {"None"}):
            yield f"{name}, {own.name}: {sorted(other.types)}, and {sorted(own.types)} in the stub"
    if not _agree(stubbed.returns, found.returns):
        yield f"{name}: returns {sorted(found.returns)}, and {sorted(stubbed.returns)} in the stub"


def _agree(stubbed: frozenset[str], found: frozenset[str]) -> bool:
    """`object` says nothing of a value, except that there is one."""
    return stubbed == found or (found == {"object"} and stubbed != {"None"})


def _read(node: ast.FunctionDef, is_method: bool) -> Signature:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    without = len(positional) - len(arguments.defaults)
    parameters = [
        Parameter(each.arg, "positional", index >= without, _types(each.annotation))
        for index, each in enumerate(positional)
    ]
    parameters += [
        Parameter(each.arg, "keyword-only", default is not None, _types(each.annotation))
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    for star, rest in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if rest is not None:
            parameters.append(Parameter(rest.arg, star, False, _types(rest.annotation)))
    return Signature(tuple(parameters[is_method:]), _types(node.returns))


def _types(annotation: ast.expr | None) -> frozenset[str]:
    """The outermost names of an annotation, those of a union apart."""
    if annotation is None:
        return frozenset({"object"})
    if isinstance(annotation, ast.BinOp):
        return _types(annotation.left) | _types(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _types(annotation.value)
    name = ast.unparse(annotation).rpartition(".")[2]
    found = _ACCEPTED.get(name, name)
    return frozenset() if found is None else frozenset({found})


Members = tuple[dict[str, ast.FunctionDef], dict[str, ast.ClassDef], dict[str, ast.expr]]


def _members(body: list[ast.stmt]) -> Members:
    """The functions, classes and annotated values of a stub's module or class."""
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    values = {ast.unparse(n.target): n.annotation for n in body if isinstance(n, ast.AnnAssign)}
    return functions, classes, values


def _is_stubbed(name: str, value: Callable[..., Any]) -> bool:
    """Is it to be in the stub? Of what has an underscore, what pybind11 defined with arguments."""
    if not name.startswith("_"):
        return True
    return name in ("__init__", "__call__") and (value.__doc__ or "").startswith(f"{name}(")


def _public_names(names: Iterable[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def _names(where: str, stubbed: Any, real: Any) -> Iterator[str]:
    for name in sorted({*stubbed} - {*real}):
        yield f"{where}{name}: in the stub only"
    for name in sorted({*real} - {*stubbed}):
        yield f"{where}{name}: missing in the stub"

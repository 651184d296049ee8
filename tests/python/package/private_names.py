"""Finds private names of torch, and private attributes that a file does not define, in a source.

An attribute is private if its name begins with one underscore. Which object has it cannot be told
from the text, but a file that reads it must define it: in a class, or by assigning it to ``self``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Public, for all their underscores: of named tuples, and of Python's library.
_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}
_STANDARD = {"os._exit", "sys._getframe", "sys._is_gil_enabled"}
# The adapter to torch and the compiled core: private to the package, not in it.
_OF_THE_PACKAGE = {"_core", "_torch"}
# Attributes that the package itself puts on objects of torch begin so.
_OURS = "_shardprop_"

_ACCESSORS = {"attrgetter", "delattr", "getattr", "hasattr", "setattr"}
_DICT_METHODS = {"get", "pop", "setdefault"}


def private_imports(source: str) -> list[str]:
    """Private names that a source imports, and modules of torch that are not for programs."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
        else:
            continue
        private = [n for n in names if any(map(is_private, set(n.split(".")) - _OF_THE_PACKAGE))]
        private += [n for n in names if n.startswith("torch.testing")]
        found += [f"{node.lineno}: import {name}" for name in private]
    return found


def is_private(name: str) -> bool:
    """One underscore before it; two are for Python's own."""
    return name.startswith("_") and not name.startswith("__")


def private_attributes(source: str, of_torch: frozenset[str] = frozenset()) -> list[str]:
    """Reads and writes of private attributes that the source does not define.

    Those `of_torch` are found in any case, unless they are of ``self``.
    """
    tree = ast.parse(source)
    defined = _defined(tree) | _NAMED_TUPLES
    operators = _operator_namespaces(tree)
    found = []
    for node, owner, name in _accesses(tree):
        if not is_private(name) or name.startswith(_OURS) or owner in operators:
            continue
        if f"{owner}.{name}" in _STANDARD:
            continue
        foreign = name in of_torch and owner not in ("self", "cls", "super()")
        if name not in defined or foreign:
            found.append((node.lineno, f"{node.lineno}: {owner}.{name}"))
    return [text for _, text in sorted(found)]


def private_attributes_touched(source: str) -> frozenset[str]:
    """Names of the private attributes that a source touches on anything but ``self``."""
    accesses = _accesses(ast.parse(source))
    return frozenset(
        name for _, owner, name in accesses if is_private(name) and owner not in ("self", "cls")
    )


def _accesses(tree: ast.Module) -> Iterator[tuple[ast.expr, str, str]]:
    """Each attribute that is touched: the node, the text of what has it, and its name."""
    constants, dicts = _constants(tree), _aliases_of_dicts(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node, ast.unparse(node.value), node.attr
        elif isinstance(node, ast.Call):
            yield from _accesses_by_call(node, constants, dicts)
        elif isinstance(node, ast.Subscript) and _is_dict_of(node.value, dicts):
            yield from _named(node, node.value, node.slice, constants)


def _accesses_by_call(
    node: ast.Call, constants: dict[str, str], dicts: set[str]
) -> Iterator[tuple[ast.expr, str, str]]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "attrgetter":
        for each in node.args:
            yield from _named(node, function, each, constants)
    elif name in _ACCESSORS and len(node.args) > 1:
        yield from _named(node, node.args[0], node.args[1], constants)
    elif (
        isinstance(function, ast.Attribute)
        and name in _DICT_METHODS
        and node.args
        and _is_dict_of(function.value, dicts)
    ):
        yield from _named(node, function.value, node.args[0], constants)


def _named(
    node: ast.expr, owner: ast.expr, name: ast.expr, constants: dict[str, str]
) -> Iterator[tuple[ast.expr, str, str]]:
    """An attribute that is named by a string, or by a constant of the module that is one."""
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield node, ast.unparse(owner), name.value
    elif isinstance(name, ast.Name) and name.id in constants:
        yield node, ast.unparse(owner), constants[name.id]


def _is_dict_of(node: ast.expr, dicts: set[str]) -> bool:
    """Does it stand for an object's attributes: ``vars(x)``, ``x.__dict__``, a name for these?"""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "vars"
    if isinstance(node, ast.Attribute):
        return node.attr == "__dict__"
    return isinstance(node, ast.Name) and node.id in dicts


def _aliases_of_dicts(tree: ast.Module) -> set[str]:
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_dict_of(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _constants(tree: ast.Module) -> dict[str, str]:
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _operator_namespaces(tree: ast.Module) -> set[str]:
    """What has operators for attributes: ``torch.ops.aten``, and names for it. The underscores of
    operators are in their public names."""
    texts = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    namespaces = {text for text in texts if _is_operator_namespace(text)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_operator_namespace(ast.unparse(node.value)):
            namespaces |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return namespaces


def _is_operator_namespace(text: str) -> bool:
    return text.startswith("torch.ops.") and text.count(".") == 2


def _defined(tree: ast.Module) -> set[str]:
    """Attributes that a source defines: in the bodies of its classes, or on ``self``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found |= {name for statement in node.body for name in _bound_by(statement)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {node.attr} if ast.unparse(node.value) in ("self", "cls") else set()
    return found


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        yield from names
        if "__slots__" in names and statement.value is not None:
            constants = (n.value for n in ast.walk(statement.value) if isinstance(n, ast.Constant))
            yield from (value for value in constants if isinstance(value, str))

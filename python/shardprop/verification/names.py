"""Ops by the names that people call them."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Collection, Iterable

import torch

from .. import _torch
from .._torch import OpOverload
from ..errors import ShardpropError
from ..rules import torch_registry

__all__ = ["UnknownOpError", "ops_decided", "ops_named", "ops_with_rules", "overload"]


class UnknownOpError(ShardpropError):
    """A name that no op has."""


def ops_with_rules() -> list[OpOverload]:
    """Every op that torch's registries have a rule for, registered ones among them, by name."""
    return sorted(torch_registry.ops_with_a_rule(), key=str)


def ops_decided() -> list[OpOverload]:
    """Those, and the ops that are decided by what they decompose into, by name."""
    return sorted(torch_registry.ops_decided(), key=str)


def overload(name: str) -> OpOverload:
    """The op that prints as `name`, such as ``"aten.mm.default"``."""
    namespace, packet, last = name.split(".")
    found: OpOverload = getattr(getattr(getattr(torch.ops, namespace), packet), last)
    return found


def ops_named(names: Iterable[str]) -> list[OpOverload]:
    """The ops of all names, each once, in alphabetical order.

    ``aten.mm.default``, ``aten::mm``, ``mm`` and ``add.Tensor`` are names, and so are globs such as
    ``*softmax*``. One that leaves the overload open means the overloads with a rule, or all that
    take tensors if none has one. Globs mean ops with a rule or a decomposition.

    Raises:
        UnknownOpError: a name that no op has.
    """
    with_rules = ops_with_rules()
    found: set[OpOverload] = set()
    for name in names:
        found.update(_named(name, with_rules))
    return sorted(found, key=str)


def _named(name: str, with_rules: Collection[OpOverload]) -> list[OpOverload]:
    wanted = name.replace("::", ".")
    if any(sign in wanted for sign in "*?["):
        matching = [op for op in ops_decided() if fnmatch.filter(_names_of(op), wanted)]
        if not matching:
            raise UnknownOpError(
                f"Expected a pattern that some op with a rule or a decomposition has, got {name!r}."
            )
        return matching
    matching = [op for op in with_rules if wanted in _names_of(op)]
    if matching:
        return matching
    # Ops without a rule are tried too: what they decompose into, or rows that they could have.
    others = [op for op in _torch.all_ops() if wanted in _names_of(op)]
    others = [op for op in others if "Tensor" in str(_torch.function_schema(op))]
    if others:
        return others
    raise UnknownOpError(
        f"Expected the name of an op, such as aten.mm.default, aten::mm or mm; got {name!r}."
        f"{_suggestion(wanted)}"
    )


def _names_of(op: OpOverload) -> list[str]:
    """aten.add.Tensor, aten.add, add.Tensor, add; of other namespaces the first two."""
    full = str(op)
    packet = full.rpartition(".")[0]
    if op.namespace != "aten":
        return [full, packet]
    return [name for full in (full, packet) for name in (full, full.partition(".")[2])]


def _suggestion(wanted: str) -> str:
    """What may have been meant: an op of a file that is not imported, or one of a similar name."""
    ops = [*_torch.all_ops()]
    namespaces = {op.namespace for op in ops}
    namespace, dot, _ = wanted.partition(".")
    known = {name for op in ops for name in _names_of(op)[1::2]}
    # Overloads of aten may be named without it.
    heads = namespaces | {name.partition(".")[0] for name in known}
    if dot and namespace not in heads:
        return (
            f" No op of {namespace!r} is known: an op of yours is, once its file is imported "
            "(--module FILE on the command line)."
        )
    if dot and namespace in namespaces - {"aten"}:
        known = {name for name in known if name.startswith(f"{namespace}.")}
    close = difflib.get_close_matches(wanted, known, n=4, cutoff=0.6)
    return f" Close to it: {', '.join(close)}." if close else ""

"""Which function makes up a call of an op: by op name, by calling convention, by rule family."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode

from ..quiet import quiet
from .dice import Dice
from .registry import Entry, Form, form_of, single_dim_entries
from .sketch import Problem, Sketch, leaves, map_leaves

Builder = Callable[[OpOverload, Dice], Problem]

_BUILDERS: dict[str, Builder] = {}


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Registers a builder under rule families ("mm"), op packets ("aten::t") or overloads
    ("aten::add.Tensor"). Families are the names of torch's strategy functions, so an op that a
    later torch adds to a known family needs nothing here."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in _BUILDERS:
                raise ValueError(f"two builders for {name}")
            _BUILDERS[name] = builder
        return builder

    return register


def builder_for(op: OpOverload) -> Builder | None:
    """The builder of an op, or None. `out=` overloads get their out tensors added.

    The most telling name wins: the overload, then for list ops the packet, then the rule family,
    then the packet (for ops that have no single-dim rule in this torch).
    """
    schema = op._schema
    overload = f"{schema.name}.{schema.overload_name or 'default'}"
    entry = _entries().get(op)
    if form_of(op) is Form.LIST:
        names = [overload, schema.name, "list"]
    elif entry is not None:
        names = [overload, entry.family]
    else:
        names = [overload, schema.name]
    found = next((name for name in names if name in _BUILDERS), None)
    if found is None:
        return None
    builder = _BUILDERS[found]
    # A builder of one overload knows its out tensors itself.
    if form_of(op) is Form.OUT and found != overload:
        return functools.partial(with_outs, builder)
    return builder


@functools.lru_cache(maxsize=1)
def _entries() -> dict[OpOverload, Entry]:
    return {entry.op: entry for entry in single_dim_entries()}


@functools.cache
def functional_of(op: OpOverload) -> OpOverload | None:
    """The overload that computes what an `out=` overload writes."""
    wanted = [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out]
    namespace, _, name = op._schema.name.partition("::")
    for packet_name in (name, f"{name}_functional"):
        packet = getattr(getattr(torch.ops, namespace), packet_name, None)
        for overload in packet.overloads() if packet is not None else ():
            other = getattr(packet, overload)
            if any(a.is_out for a in other._schema.arguments):
                continue
            if [(a.name, str(a.type)) for a in other._schema.arguments] == wanted:
                return other
    return None


def with_outs(builder: Builder, op: OpOverload, dice: Dice) -> Problem:
    """The call of an `out=` overload: arguments and results of its functional form."""
    functional = functional_of(op)
    if functional is None:
        raise NotImplementedError(f"no functional form of {op}")
    names = [a.name for a in op._schema.arguments if a.is_out]
    dice.all_outputs = True
    for _ in range(20):
        problem = builder(functional, dice)
        with quiet():
            try:
                made = list(leaves(Sketch, fake_outputs(problem)))
            except Exception:  # a corner that torch refuses, such as norms over one element
                continue
        if len(made) == len(names):
            break
    else:
        raise NotImplementedError(f"{op}: no call found with {len(names)} results to write to")
    kwargs = problem.kwargs | dict(zip(names, made, strict=True))
    order = [a.name for a in op._schema.arguments if a.name in kwargs]
    return Problem(op, problem.args, {name: kwargs[name] for name in order}, problem.foreign)


def fake_outputs(problem: Problem, mode: FakeTensorMode | None = None) -> object:
    """What the call returns, tensors as sketches; raises what torch raises for a bad call."""
    with mode or FakeTensorMode():
        args = map_leaves(Sketch, lambda s: s.empty(), problem.args)
        kwargs = {
            name: map_leaves(Sketch, lambda s: s.empty(), value)
            for name, value in problem.kwargs.items()
        }
        result = problem.op(*args, **kwargs)
    if isinstance(result, (list, tuple)):
        return tuple(Sketch.of(r) if isinstance(r, torch.Tensor) else None for r in result)
    return Sketch.of(result) if isinstance(result, torch.Tensor) else None

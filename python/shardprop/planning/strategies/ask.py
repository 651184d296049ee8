"""`strategies`: from an op and where its operands may come from to all ways to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import _core, _torch
from ..._torch import DeviceMesh, OpOverload, Replicate, TensorMeta
from ...errors import ShardpropError
from ...model.op_traits import traits_of
from ...model.question import OutputMeta, metas_of
from ...propagation.list_ops import is_tensor_list
from ...propagation.op_call import placed_arguments
from ...propagation.propagator import current_policy, uncounted
from ...propagation.route import Who, route
from ...rules.book.completed import reads_the_book
from ...rules.rule import RowsRule
from .by_rows import expand_rows
from .by_torch import ask_torch
from .call_template import CallTemplate
from .decomposed import schema_of_sources
from .elements import TENSORS, cut_into_elements
from .following import follow_sources
from .layout_table import LayoutTable
from .numbered import Numbered
from .pricing import Pricer, pricer_of
from .sources import kinds_among, read_sources
from .table import Strategies

__all__ = ["strategies"]


def strategies(
    op: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    mesh: DeviceMesh,
    sources: Sequence[Any] | None = None,
    prices: Any = None,
    strided: bool = True,
    layouts: LayoutTable | None = None,
    rules: str = "complete",
) -> Strategies:
    """Every strategy of an op on a mesh, for operands that may come in any of several layouts.

    The order is that of the product over mesh dims of the rows of the op's rule, the last mesh dim
    varying fastest; the set is what torch's expansion keeps for any of the sources. Where an op
    writes into an operand, that operand and the output are placed alike, but anywhere: a plan
    may move it beforehand. An op whose outputs follow its operands (a view, most reductions)
    has one strategy per combination of sources, in their order, and the replicated one last; an
    op that torch's own code decides has its decision for each combination, and every strategy that
    torch enumerates for it. A list op (foreach and fused) is
    decided element by element: see `Strategies.elements`.

    Args:
        op: An overload that is decided: by a rule, its decomposition, or torch's own code.
        args: Its arguments; tensors as TensorMeta, as tensors (of which only the metadata is read),
            as DTensorSpec, or as the OpStrategy of the op that makes them.
        kwargs: Its keyword arguments, likewise.
        mesh: Where all operands are.
        sources: Per operand (tensors of `args`, then of `kwargs`, lists flattened) the layouts in
            which it may come: each a placement per mesh dim, or a DTensorSpec; or the OpStrategy of
            the op that makes it (of several outputs, with the number of the output). None, for an
            operand or for all: those it was given with, else every combination of Replicate and
            Shard.
        prices: What it costs to bring an operand from a source to where a strategy wants it: an
            ExactPlanner, what `enable` takes for a topology (save a function), or a function
            ``(src, dst) -> microseconds`` of two DTensorSpec, called once for each distinct pair.
            None: no prices.
        strided: Keep shards that a source has strided as they are, where the op's rule leaves the
            kind of shard open; else strategies have plain shards alone.
        layouts: Where to number the layouts; None: a new table.
        rules: ``"complete"``: with the rows of the rule book (docs/rule-book.md); ``"torch"``:
            those of torch's rules alone.

    Raises:
        ShardpropError: an op about which nothing is decided, arguments or sources that cannot be
            meant, or no strategy; the message names op and argument.
    """
    kwargs = {} if kwargs is None else kwargs
    _check(op, args, kwargs, mesh, layouts)
    args, kwargs = placed_arguments(op, args, kwargs)
    table = LayoutTable() if layouts is None else layouts
    request = _Request(op, mesh, pricer_of(prices), strided, table, reads_the_book(rules))
    # As torch's dispatcher asks: a decomposition comes apart otherwise from outside.
    with uncounted(), _torch.as_dispatched():
        if traits_of(op).is_list_op and any(is_tensor_list(arg, TENSORS) for arg in args):
            return _of_list(request, args, kwargs, sources)
        return _of_op(request, args, kwargs, sources)


class _Request(NamedTuple):
    """What is asked about every element of a list op alike."""

    op: OpOverload
    mesh: DeviceMesh
    pricer: Pricer | None
    strided: bool
    table: LayoutTable
    completes: bool


def _of_op(
    request: _Request, args: Sequence[Any], kwargs: Mapping[str, Any], sources: Any
) -> Strategies:
    """The strategies of an op, or of a list op with one element."""
    op, mesh, _, strided, table, completes = request
    call = CallTemplate(op, args, kwargs, mesh)
    policy = current_policy()
    found = route(call.schema(call.replicated_specs()), policy, completes)
    rule = found.rule
    if found.who in (Who.READ_OUT, Who.HANDLER):
        raise ShardpropError(found.nothing_is_decided)
    try:
        call.settle(rule)
        producers = read_sources(call, sources)
        if found.who is Who.DECOMPOSITION:
            found = route(schema_of_sources(call, producers, strided), policy, completes)
            rule = found.rule
        if rule is None:
            numbered = ask_torch(call, found, policy, producers)
        elif rule.as_rows is None:
            numbered = follow_sources(call, rule, producers, len(metas_of(call.meta)))
        else:
            numbered = _expanded(call, rule.as_rows, producers, kinds_among(producers, strided))
        metas = _output_metas(call.meta, numbered)
    except (_core.Unsupported, _core.RuleError) as error:
        raise ShardpropError(f"{op}: {error}") from None
    numbers = _translated(numbered, table)
    outputs = numbers[:, : numbered.outputs]
    if len(metas) != numbered.outputs:
        outputs = np.repeat(outputs, len(metas), axis=1)
    outputs[:, [meta is None for meta in metas]] = -1  # rows may name a placement all the same
    # A number that rows give no placement, such as the offset of attention's random state: torch
    # hands out what each rank has made, as it is.
    for k, meta in enumerate(metas):
        unplaced = outputs[:, k] < 0
        if meta is not None and not meta.shape and unplaced.any():
            outputs[unplaced, k] = table.id((Replicate(),) * mesh.ndim)
    return Strategies(
        op,
        mesh,
        table,
        outputs,
        numbers[:, numbered.outputs :],
        [table.ids(each) for each in producers],
        call.operand_metas,
        metas,
        request.pricer,
    )


def _of_list(
    request: _Request, args: Sequence[Any], kwargs: Mapping[str, Any], sources: Any
) -> Strategies:
    """The strategies of each element, in those of the first; elements that are alike share them."""
    elements = cut_into_elements(request.op, args, kwargs, sources)
    known: dict[object, Strategies] = {}
    found = []
    for element in elements:
        if element.key not in known:
            known[element.key] = _of_op(request, element.args, kwargs, element.sources)
        found.append(known[element.key])
    return found[0].of_list(found)


def _check(op: Any, args: Any, kwargs: Any, mesh: Any, layouts: Any) -> None:
    if not isinstance(args, (list, tuple)) or isinstance(args, TensorMeta):
        raise ShardpropError(f"{op}, args: Expected a list or tuple of arguments, got {args!r}.")
    if not isinstance(kwargs, Mapping):
        raise ShardpropError(f"{op}, kwargs: Expected a dict of arguments, got {kwargs!r}.")
    if not isinstance(mesh, DeviceMesh):
        raise ShardpropError(f"{op}, mesh: Expected a DeviceMesh, got {mesh!r}.")
    if layouts is not None and not isinstance(layouts, LayoutTable):
        raise ShardpropError(f"{op}, layouts: Expected a LayoutTable, got {layouts!r}.")


def _expanded(
    call: CallTemplate, rule: RowsRule, producers: list[list[Any]], kinds: list[int]
) -> Numbered:
    try:
        numbered = expand_rows(call, rule, producers, kinds)
    except (_core.Unsupported, _core.RuleError, ShardpropError):
        raise
    except Exception as error:  # the rule function's
        raise ShardpropError(
            f"{call.op}: Expected arguments that its rule takes, got {type(error).__name__}: "
            f"{error}"
        ) from error
    if not len(numbered.table):
        raise ShardpropError(f"{call.op}: Expected a strategy, got none that is valid.")
    return numbered


def _output_metas(meta: OutputMeta, numbered: Numbered) -> list[TensorMeta | None]:
    """Metadata per output, None for an absent one."""
    metas = [*metas_of(meta)]
    outputs = numbered.outputs
    if len(metas) == outputs or outputs == 1:  # one layout may be that of several
        return metas
    absent = [bool((numbered.table[:, k] < 0).all()) for k in range(outputs)]
    if len(metas) != outputs - sum(absent):
        raise _core.Unsupported("outputs and their metadata differ in number")
    present = iter(metas)
    return [None if gone else next(present) for gone in absent]


def _translated(numbered: Numbered, table: LayoutTable) -> NDArray[np.int32]:
    """The numbers as `table` has them; -1 stays."""
    ids = np.empty(len(numbered.layouts) + 1, np.int32)
    ids[:-1] = table.ids(numbered.layouts)
    ids[-1] = -1
    return ids[numbered.table]

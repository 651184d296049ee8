"""The answers to one question by whoever is asked, and what they disagree about."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import Placement, Replicate
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema

import shardprop
from shardprop import ShardpropError, _torch
from shardprop.inspection.explanation.explaining import explain_schema
from shardprop.inspection.explanation.model import DecisionExplanation
from shardprop.model.op_traits import traits_of
from shardprop.model.operands import operands_of
from shardprop.planning.strategies.table import Strategies, Strategy
from shardprop.propagation import observers
from shardprop.propagation.answer import output_placements, wanted_specs
from shardprop.propagation.observers import Observed
from shardprop.propagation.op_call import specs_of
from shardprop.propagation.query import Decision
from shardprop.propagation.route import Who

from ..narrow import known
from ..parity.outcome import Normalizer
from ..parity.sketch import leaves, map_leaves
from ..quiet import quiet
from .questions import Question

__all__ = ["Disagreement", "disagreements", "moves_of_both", "plain"]


@dataclass(frozen=True)
class Disagreement:
    """Something about a question that two answers say otherwise."""

    question: Question
    what: str
    run: object
    other: object

    def __str__(self) -> str:
        return f"{self.what}:\n  the run  {self.run}\n  but here {self.other}\n  {self.question}"


class _Seen(Exception):
    """Ends an op as soon as it is decided."""


def _run(question: Question) -> Observed | None:
    """What torch's dispatcher asks when the op is called with DTensors, and what it is answered;
    None where it asks nothing. Nothing is executed."""
    seen: list[Observed] = []

    def look(asked: Observed) -> None:
        seen.append(asked)
        raise _Seen

    args = [map_leaves(DTensorSpec, _dtensor, arg) for arg in question.args]
    kwargs = {
        name: map_leaves(DTensorSpec, _dtensor, value) for name, value in question.kwargs.items()
    }
    observers.add(look)
    try:
        # As below autograd, which takes composite ops apart.
        with quiet(), _torch.as_dispatched():
            question.op(*args, **kwargs)
    except Exception:  # torch's errors are among what was seen
        pass
    finally:
        observers.remove(look)
    return seen[0] if seen else None


def _dtensor(spec: DTensorSpec) -> torch.Tensor:
    meta = known(spec.tensor_meta)
    local = torch.empty_strided(
        _torch.local_shape(spec),
        meta.stride,
        dtype=meta.dtype,
        device="meta",
    )
    return _torch.dtensor_of(local, spec)


Moves = dict[str, tuple[Any, Any]]


def moves_of_both(asked: Observed, explained: DecisionExplanation) -> tuple[Moves, Moves]:
    """From where to where each operand is redistributed by name, in the run and as explained.

    Nothing where a handler of torch's moves operands by itself. Of a list op an explanation shows
    an element of each kind.
    """
    if _torch.handler_around_propagation(asked.schema.op) is not None:
        return {}, {}
    kinds = explained.elements or (explained,)
    shown = {operand.name for kind in kinds for operand in kind.operands}
    ran = {name: move for name, move in _moves_of_run(asked).items() if name in shown}
    told = {
        move.name: (tuple(move.src.placements), tuple(move.dst.placements))
        for kind in kinds
        for move in kind.moves
    }
    return ran, told


def _moves_of_run(asked: Observed) -> Moves:
    answer, schema = asked.answer, asked.schema
    if answer is None or not answer.needs_redistribute:
        return {}
    names = [each.name for each in operands_of(schema.op, schema.args_schema, {})]
    return {
        name: (tuple(src.placements), tuple(dst.placements))
        for name, src, dst in zip(
            names, specs_of(schema), wanted_specs(schema, answer), strict=False
        )
        if src.placements != dst.placements
    }


def disagreements(question: Question) -> list[Disagreement] | None:
    """Everything that the run, `propagate`, `strategies` and `explain` do not agree about.

    None where torch's dispatcher asks about no op, or about another one in its place, so that there
    is nothing to compare.
    """
    asked = _run(question)
    if asked is None or asked.schema.op is not question.op:
        return None
    if _torch.handler_around_propagation(question.op) is not None:
        # It may have moved operands before it asked: what it asked is the question.
        question = replace(question, args=asked.schema.args_schema)
    with quiet():
        told = _propagate(question)
        explained = explain_schema(asked.schema)
        listed = _strategies(question)
    return [
        Disagreement(question, what, run_says, other)
        for what, run_says, other in _differing(asked, told, explained, listed)
        if plain(run_says) != plain(other)
    ]


def plain(value: Any) -> Any:
    """The same with placements as text, masks being alike if they are of one shape."""
    if isinstance(value, Placement):
        return re.sub("mask[0-9]+", "mask", Normalizer().placement(value))
    if type(value) in (list, tuple, Strategy):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def _propagate(question: Question) -> Decision | ShardpropError:
    try:
        return shardprop.propagate(question.op, *question.args, **question.kwargs)
    except ShardpropError as error:
        return error


def _strategies(question: Question) -> Strategies | ShardpropError:
    try:
        return shardprop.strategies(
            question.op,
            question.args,
            question.kwargs,
            mesh=question.mesh,
            prices=shardprop.redistribute_cost,
        )
    except ShardpropError as error:
        return error


def _differing(
    asked: Observed,
    told: Decision | ShardpropError,
    explained: DecisionExplanation,
    listed: Strategies | ShardpropError,
) -> Iterator[tuple[str, object, object]]:
    """What is to be equal: what it is, what the run says, what another says."""
    refused = asked.error is not None
    if refused or isinstance(told, ShardpropError) or explained.error is not None:
        yield "propagate refuses", refused, isinstance(told, ShardpropError)
        yield "explain refuses", refused, explained.error is not None
        return
    answer = asked.answer
    assert answer is not None
    yield (
        "sharding of propagate",
        Normalizer().sharding(answer, asked.schema),
        Normalizer().sharding(told.sharding, asked.schema),
    )
    by_core = asked.outcome is None
    yield "who, by propagate", by_core, told.who is not Who.TORCH
    yield "who, by explain", told.who, explained.who
    yield "rule", told.rule, explained.rule
    yield "refused by torch", told.refused_by_torch, explained.refused_by_torch
    yield "outputs of propagate", output_placements(answer), told.outputs
    if told.who is Who.READ_OUT:
        return
    yield from _of_explanation(asked, told, explained)
    if isinstance(listed, ShardpropError):
        yield "strategies refuses", False, f"{listed}"
        return
    yield from _of_strategies(asked.schema, told, listed)


def _of_explanation(
    asked: Observed, told: Decision, explained: DecisionExplanation
) -> Iterator[tuple[str, object, object]]:
    yield "moves of explain", *moves_of_both(asked, explained)
    yield "cost of explain", told.cost, explained.total_us
    if explained.alike == 1 and not explained.elements:
        winner = explained.candidates[0]
        yield "outputs of explain", *_as_rows_name_them(told.outputs, winner.outputs)
        # Keyword arguments, which a rule whose outputs follow leaves out, stay where they are.
        named = len(winner.operands)
        stay = [tuple(spec.placements) for spec in specs_of(asked.schema)[named:]]
        yield "operands of explain", told.operands, (*winner.operands, *stay)
        yield "prices of explain", told.operand_costs, (*winner.operand_us, *(0.0 for _ in stay))


def _as_rows_name_them(
    outputs: Sequence[Any], named: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Outputs of a decision and of a candidate: a candidate names one layout for all where there is
    but one, and a row may name one for an output that is absent."""
    if len(named) == 1:
        named = [named[0]] * len(outputs)
    present = [index for index, output in enumerate(outputs) if output is not None]
    if len(named) != len(outputs):
        return tuple(outputs), tuple(named)
    return tuple(outputs[i] for i in present), tuple(named[i] for i in present)


def _of_strategies(
    schema: OpSchema, told: Decision, listed: Strategies
) -> Iterator[tuple[str, object, object]]:
    """The decision is one of the strategies, and is priced as it is; of a list op each element."""
    if not traits_of(schema.op).returns_tensors:
        parts = [_Part(listed, (), told.operands)]
    else:
        parts = [_Part(listed, _as_handed_out(told.outputs, listed), told.operands)]
    if listed.elements:
        parts = [*_parts(schema, told, listed.elements)]
    cost = 0.0
    for part in parts:
        rows = part.rows()
        yield "among strategies", True, bool(rows) or part
        if not rows:
            return
        cost += min(part.price(row) for row in rows)
    if told.cost < 0:
        return  # torch prefers what follows the operand by a price that is none
    # Of a list op propagate sums kind by kind, and here it is element by element.
    is_near = bool(listed.elements) and math.isclose(told.cost, cost, rel_tol=1e-12)
    yield "cost of strategies", told.cost, told.cost if is_near else cost


def _as_handed_out(outputs: Sequence[Any], listed: Strategies) -> tuple[Any, ...]:
    """A number without a placement is what each rank has made: a planner finds it replicated."""
    metas = listed.output_metas
    if len(metas) != len(outputs):
        return tuple(outputs)
    replicated = (Replicate(),) * listed.mesh.ndim
    return tuple(
        replicated if layout is None and meta is not None and not meta.shape else layout
        for layout, meta in zip(outputs, metas, strict=True)
    )


class _Part(NamedTuple):
    """What was decided of an op, or of one element of a list op.

    Attributes:
        strategies: All that might have been.
        outputs: The placements of the outputs; none where nothing comes back.
        operands: Those of the operands; None where the decision does not tell: what is one tensor
            for all elements is where the first element wants it, says `Decision`.
    """

    strategies: Strategies
    outputs: tuple[Any, ...]
    operands: tuple[Any, ...]

    def rows(self) -> list[int]:
        """The strategies that may have been chosen."""
        outputs, operands = plain(self.outputs), plain(self.operands)
        found = []
        for row in range(len(self.strategies)):
            made, wanted = plain(self.strategies[row])
            if made == outputs and all(
                mine is None or mine == its for mine, its in zip(operands, wanted, strict=True)
            ):
                found.append(row)
        return found

    def price(self, row: int) -> float:
        """Microseconds to bring the operands from where they are to where a strategy wants them."""
        assert self.strategies.prices is not None
        return sum(float(prices[row, 0]) for prices in self.strategies.prices)


def _parts(schema: OpSchema, told: Decision, elements: Sequence[Strategies]) -> Iterator[_Part]:
    """What was decided of each element."""
    returns = len(told.outputs) // len(elements) if traits_of(schema.op).returns_tensors else 0
    values = (*schema.args_schema, *schema.kwargs_schema.values())
    for index, strategies in enumerate(elements):
        operands: list[Any] = []
        place = 0
        for value in values:
            count = len([*leaves(DTensorSpec, value)])
            if isinstance(value, DTensorSpec):
                operands.append(told.operands[place] if index == 0 else None)
            elif count:
                operands.append(told.operands[place + index])
            place += count
        outputs = told.outputs[index * returns : (index + 1) * returns]
        yield _Part(strategies, outputs, tuple(operands))

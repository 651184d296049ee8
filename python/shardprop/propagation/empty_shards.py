"""Ops that raise, or make another dtype, where a rank holds nothing of an operand.

The other ranks would wait for it in the next collective. All ranks can tell by the shapes of the
whole tensors: the op is tried on shapes that ranks hold, and where it raises on an empty shard, the
operand is gathered before.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import torch

from .. import _core, _torch
from .._torch import DeviceMesh, DTensorSpec, OpOverload, OpSchema, is_shard, make_spec
from ..errors import ShardpropError
from ..model.local_shapes import Shape, shapes_held
from ..model.mesh import core_mesh
from ..model.op_traits import traits_of
from ..model.placements import Placements
from ..model.question import (
    Choice,
    NoStrategyError,
    OutputMeta,
    Question,
    metas_of,
    staying_operands,
    with_operands,
)
from ..rules.follow_rule import REPLICATE, Candidate
from ..rules.kept_rows import KeptRows
from ..rules.rule import Chooser, RowsRule, Rule, RuleFacts, RuleKind
from .asked import asked_of
from .move_costs import choice_costs

__all__ = ["has_empty_shard", "rule_for_all_ranks"]

# Elements of outputs above which an op is tried on tensors without data: then kernels that check
# sizes late, or values, are not found.
_MOST_COMPUTED = 1 << 20

aten = torch.ops.aten
# Their kernels divide by a number of elements, or read the first: the process ends.
_ENDING_THE_PROCESS = frozenset(
    (
        aten._weight_norm.default,
        aten._weight_norm_interface.default,
        aten._weight_norm_interface.out,
        aten._weight_norm_interface_backward.default,
        aten._weight_norm_interface_backward.out,
        aten.batch_norm_backward.default,
        aten.native_batch_norm_backward.default,
        aten.native_batch_norm_backward.out,
    )
)
_DROPOUTS = frozenset((aten.native_dropout.default, aten.native_dropout.out))


@dataclass(frozen=True)
class _Fault:
    """What becomes of an op on a rank that holds nothing of an operand."""

    happens: str
    is_mended_by_gathering: bool = True


def has_empty_shard(*specs: DTensorSpec) -> bool:
    """Do shards of one of these leave some rank nothing?"""
    return _core.has_empty_shard(specs, core_mesh)


def rule_for_all_ranks(schema: OpSchema, rule: Rule, chooser: Chooser) -> Rule | None:
    """What to ask in the place of a rule by which some ranks would raise, and others not.

    None where they would not. So it is, too, where the rule declines or raises: it will again.
    """
    try:
        are_fit = all(
            _fault_on_some(question, rule.choose(question, chooser)) is None
            for question in asked_of(schema, rule).questions
        )
    except Exception:
        return None
    return None if are_fit else _ForAllRanks(rule, chooser)


class _ForAllRanks(Rule):
    """A rule asked with operands gathered of which a rank holds nothing, where it would raise."""

    kind = RuleKind.FOLLOWS

    def __init__(self, rule: Rule, chooser: Chooser) -> None:
        self._rule = rule
        self._chooser = chooser
        self.origin = rule.origin
        self.by_element = rule.by_element  # type: ignore[misc]
        self.refused_by_torch = rule.refused_by_torch

    def facts(self, op: OpOverload) -> RuleFacts:
        """Those of the rule itself."""
        return self._rule.facts(op)

    def check(self, schema: OpSchema, meta: OutputMeta) -> None:
        """See `Rule.check`."""
        self._rule.check(schema, meta)

    def question(self, schema: OpSchema, meta: OutputMeta) -> Question:
        """See `Rule.question`."""
        return self._rule.question(schema, meta)

    def refuse(self, schema: OpSchema, declined: Exception) -> None:
        """See `Rule.refuse`."""
        self._rule.refuse(schema, declined)

    def candidates(self, question: Question) -> list[Candidate]:
        """The only one; see `Rule.candidates`."""
        choice = self.choose(question, self._chooser)
        return [
            Candidate(
                choice.outputs,  # type: ignore[arg-type]
                choice.operands[: question.positional],
                choice.is_sequence,
                choice.strided_is_order,
                tuple(choice.operand_costs),
            )
        ]

    def choose(self, question: Question, chooser: Chooser) -> Choice:
        """See `Rule.choose`.

        Raises:
            ShardpropError: an operand is to be gathered that the op writes into.
        """
        asked, choice = question, self._first_choice(question, chooser)
        while (fault := _fault_on_some(asked, choice)) is not None:
            asked = _gathered(asked, choice, fault)
            choice = self._rule.choose(asked, chooser)
        return choice if asked is question else _priced(question, choice, chooser)

    def _first_choice(self, question: Question, chooser: Chooser) -> Choice:
        """That of the rule; under a policy that looks for the least price, among those strategies
        by which no rank would raise, if there are any."""
        if chooser.has_own_plans and isinstance(self._rule, RowsRule):
            kept = KeptRows(self._rule, accepts=partial(_runs_on_all, question))
            with suppress(NoStrategyError):
                return kept.choose(question, chooser)
        return self._rule.choose(question, chooser)


def _runs_on_all(
    question: Question,
    mesh: DeviceMesh,
    schema: object,
    operands: Sequence[DTensorSpec],
    output: object,
) -> bool:
    """Does no rank raise where the operands are placed so?"""
    layouts = [tuple(spec.placements) for spec in operands]
    return _fault_of_layouts(question, layouts, mesh.shape) is None


def _layouts(question: Question, choice: Choice) -> list[Placements]:
    """Where all operands will be: those that torch does not move, where they are."""
    rest = question.operands[len(choice.operands) :]
    return [*choice.operands, *(tuple(spec.placements) for spec in rest)]


def _fault_on_some(question: Question, choice: Choice) -> _Fault | None:
    """The first on a rank that holds nothing of an operand; None if there is none."""
    if choice.pinned:
        return None  # operands on several meshes, each with ranks of its own
    return _fault_of_layouts(question, _layouts(question, choice), choice.mesh.shape)


def _fault_of_layouts(
    question: Question, layouts: Sequence[Placements], mesh_sizes: Sequence[int]
) -> _Fault | None:
    whole = [tuple(spec.shape) for spec in question.operands]
    held = shapes_held(whole, layouts, mesh_sizes)
    empty = (shapes for shapes in held if any(map(_is_emptied, whole, shapes)))
    faults = (_fault_on(question, shapes) for shapes in empty)
    return next(filter(None, faults), None)


def _is_emptied(whole: Shape, local: Shape) -> bool:
    return 0 in local and 0 not in whole


def _fault_on(question: Question, shapes: Sequence[Shape]) -> _Fault | None:
    """What becomes of the op on zeros of these shapes; None if all is well."""
    if question.rule_op in _ENDING_THE_PROCESS:
        return _raising("its kernel ends the process where there are no elements")
    if question.rule_op in _DROPOUTS:
        return _fault_of_mask(question.operands[0])
    outputs = [math.prod(meta.shape) for meta in metas_of(question.meta) if meta is not None]
    device = "cpu" if sum(outputs) <= _MOST_COMPUTED else "meta"
    written = traits_of(question.op).mutates
    metas = [spec.tensor_meta for spec in question.operands]
    with _torch.no_mode_dispatch(), _torch.no_torch_function(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zeros = [
            torch.zeros(shape if written else (), dtype=meta and meta.dtype, device=device)
            for meta, shape in zip(metas, shapes, strict=True)
        ]
        local = [zero.expand(shape) for zero, shape in zip(zeros, shapes, strict=True)]
        tried = with_operands(question, local)
        try:
            tried.rule_op(*tried.args, **tried.kwargs)
        except NotImplementedError:  # no kernel for the device
            return None
        except Exception as error:  # whatever an op raises of itself
            return None if "not implemented for" in str(error) else _raising(str(error))
    return None


def _raising(words: str) -> _Fault:
    line = words.strip().partition("\n")[0]
    return _Fault(f"would raise ({line}) while the others wait")


def _fault_of_mask(operand: DTensorSpec) -> _Fault | None:
    """What is wrong with a dropout's mask of an empty operand.

    On a CPU it has the dtype of the operand, else it is of bools: with `out=` the op raises;
    without, the next collective of the mask does. No operand is gathered: ranks on CPUs do not draw
    the same numbers, so what they made of a whole one would differ.
    """
    if operand.mesh.device_type != "cpu":
        return None
    dtype = operand.tensor_meta and operand.tensor_meta.dtype
    happens = f"makes another mask ({dtype} without elements, else torch.bool)"
    return _Fault(happens, is_mended_by_gathering=False)


def _gathered(question: Question, choice: Choice, fault: _Fault) -> Question:
    """The question with operands replicated on the mesh dims that shard what some rank has nothing
    of; all of them on all, if that leaves it as it is.

    Raises:
        ShardpropError: torch's dispatcher does not move such an operand, the op draws random
            numbers, or all are replicated.
    """
    specs = question.operands
    empty = [
        _emptied_dims(spec.shape, layout, choice.mesh.shape)
        for spec, layout in zip(specs, _layouts(question, choice), strict=True)
    ]
    if not any(map(_is_sharded, specs, empty)):
        empty = [{*range(spec.ndim)} for spec in specs]
    gathered = [*map(_replicated, specs, empty)]
    moved = [at for at, spec in enumerate(specs) if gathered[at] is not spec]
    staying = staying_operands(question) if fault.is_mended_by_gathering else moved
    unmovable = next((at for at in moved if at in staying), None if moved else 0)
    if unmovable is not None:
        raise _refusal(question, choice, unmovable, fault)
    return with_operands(question, gathered)


def _emptied_dims(shape: Shape, layout: Placements, mesh_sizes: Sequence[int]) -> set[int]:
    """Tensor dims of which some rank has nothing."""
    held = [local for (local,) in shapes_held([shape], [layout], mesh_sizes)]
    return {dim for dim, size in enumerate(shape) if size and any(not x[dim] for x in held)}


def _is_sharded(spec: DTensorSpec, dims: Container[int]) -> bool:
    return any(is_shard(p) and p.dim in dims for p in spec.placements)  # type: ignore[attr-defined]


def _replicated(spec: DTensorSpec, dims: Container[int]) -> DTensorSpec:
    """The spec without shards of some dims."""
    if not _is_sharded(spec, dims):
        return spec
    placements = tuple(
        REPLICATE if is_shard(p) and p.dim in dims else p  # type: ignore[attr-defined]
        for p in spec.placements
    )
    is_order = bool(spec.use_strided_shard_as_shard_order)
    return make_spec(spec.mesh, placements, spec.tensor_meta, is_order)


def _refusal(question: Question, choice: Choice, operand: int, fault: _Fault) -> ShardpropError:
    spec = question.operands[operand]
    layout = _layouts(question, choice)[operand]
    way_out = "shards of another dim" + " or to Replicate" * fault.is_mended_by_gathering
    return ShardpropError(
        f"{question.op}, operand {operand}: Expected shards of {tuple(spec.shape)} that leave each "
        f"rank something, got {layout} on a mesh of {tuple(choice.mesh.shape)}: "
        f"{_ranks_without(spec, layout)} {fault.happens}. "
        f"Redistribute the operand before, to {way_out}."
    )


def _ranks_without(spec: DTensorSpec, layout: Placements) -> str:
    """The ranks that have nothing of an operand, in words."""
    sizes = spec.mesh.shape
    places = itertools.product(*map(range, sizes))
    ranks = []
    for place, rank in zip(places, spec.mesh.mesh.flatten().tolist(), strict=True):
        shape = [*spec.shape]
        for placement, there, count in zip(layout, place, sizes, strict=True):
            if is_shard(placement):
                dim: int = placement.dim  # type: ignore[attr-defined]
                shape[dim] = _torch.local_size(placement, shape[dim], count, there)
        if 0 in shape:
            ranks.append(rank)
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _priced(question: Question, choice: Choice, chooser: Chooser) -> Choice:
    """The choice with what it costs to move the operands from where they are."""
    movable = range(min(question.positional, len(choice.operands)))
    costs = choice_costs(chooser, choice, question.operands, movable)
    return choice._replace(operand_costs=costs, cost=sum(costs))

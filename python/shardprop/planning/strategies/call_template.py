"""What a program gives in place of an op's tensors: metadata, and a layout if it has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ... import _core
from ..._torch import (
    DeviceMesh,
    DTensor,
    DTensorSpec,
    OpOverload,
    OpSchema,
    OpStrategy,
    Replicate,
    TensorMeta,
    default_shard_order,
    make_spec,
    meta_of,
)
from ...errors import ShardpropError
from ...metadata import output_meta
from ...model.placements import Placements
from ...model.question import OutputMeta, Question
from ...model.spec_checks import check_spec
from ...propagation.asked import asked_of
from ...rules import torch_registry
from ...rules.rule import Rule

__all__ = ["CallTemplate", "refuse_order"]


class _Tensor(NamedTuple):
    """A tensor among the arguments: where it is in the walk over them, and what it is."""

    number: int
    meta: TensorMeta
    own: Sequence[Placements] | None


class CallTemplate:
    """An op's arguments with a mark in place of each tensor.

    Attributes:
        op: The op.
        mesh: Where its operands are.
        meta: Metadata of its outputs; of a list op, of its one element's.
        operand_metas: Per operand, in the order of `Question.operands`.
        own: Per operand the layouts that it came with, if any.
    """

    def __init__(
        self, op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], mesh: DeviceMesh
    ) -> None:
        self.op = op
        self.mesh = mesh
        self._tensors: list[_Tensor] = []
        self._args = tuple(self._mark(arg, f"args[{i}]") for i, arg in enumerate(args))
        self._kwargs = {name: self._mark(value, name) for name, value in kwargs.items()}
        if not self._tensors:
            raise ShardpropError(f"{op}: Expected a tensor among the arguments, got none.")
        self.meta: OutputMeta = None
        self._of_op: OutputMeta = None
        self._order: list[int] = []

    def _mark(self, item: Any, name: str) -> Any:
        """The item, or the mark that stands for it."""
        where = f"{self.op}, {name}"
        if isinstance(item, (TensorMeta, torch.Tensor, DTensorSpec, OpStrategy)):
            meta, own = _read_tensor(item, self.mesh, where)
            if not all(type(size) is int for size in (*meta.shape, *meta.stride)):
                raise ShardpropError(f"{where}: Expected sizes that are ints, got {meta.shape}.")
            tensor = _Tensor(len(self._tensors), meta, own)
            self._tensors.append(tensor)
            return tensor
        if isinstance(item, (list, tuple)) and not isinstance(item, torch.Size):
            # Of the kinds that torch's rules know: a graph of torch.fx has others.
            kind = list if isinstance(item, list) else tuple
            return kind(self._mark(x, f"{name}[{i}]") for i, x in enumerate(item))
        return item

    def settle(self, rule: Rule | None) -> None:
        """Find out the outputs' metadata and what counts as an operand, by the op's rule or, where
        it has none, by what is common to all.

        Raises:
            ShardpropError: operands that do not fit together, or a list of tensors that the op's
                rule does not look into.
            _core.Unsupported: the core does not handle this.
        """
        specs = self.replicated_specs()
        schema = self.schema(specs)
        try:
            self._of_op = output_meta(schema)
            question = self._asked(schema, rule or Rule())
        except (ShardpropError, _core.Unsupported):
            raise
        except Exception as error:
            raise ShardpropError(
                f"{self.op}: Expected operands that fit together, got {type(error).__name__}: "
                f"{error}"
            ) from error
        self.meta = question.meta
        number = {id(spec): index for index, spec in enumerate(specs)}
        self._order = [number[id(operand)] for operand in question.operands]
        if len(self._order) != len(self._tensors):
            raise ShardpropError(
                f"{self.op}: Expected tensors where its rule looks for them, got "
                f"{len(self._tensors)} of which it counts {len(self._order)} as operands."
            )

    def _asked(self, schema: OpSchema, rule: Rule) -> Question:
        return asked_of(schema, rule, lambda _: self._of_op).questions[0]

    @property
    def operand_metas(self) -> list[TensorMeta]:
        return [self._tensors[number].meta for number in self._order]

    @property
    def own(self) -> list[Sequence[Placements] | None]:
        return [self._tensors[number].own for number in self._order]

    def schema(self, specs: Sequence[DTensorSpec]) -> OpSchema:
        """The op's schema with these specs in place of the tensors, as the walk counts them."""

        def put(item: Any) -> Any:
            if type(item) is _Tensor:
                return specs[item.number]
            return type(item)(map(put, item)) if type(item) in (list, tuple) else item

        kwargs = {name: put(value) for name, value in self._kwargs.items()}
        return torch_registry.op_schema(self.op, tuple(map(put, self._args)), kwargs)

    def in_walk(self, layouts: Sequence[Placements]) -> list[Placements]:
        """What is given per operand, in the order in which the walk counts tensors."""
        placed = dict(zip(self._order, layouts, strict=True))
        return [placed[number] for number in range(len(placed))]

    def _specs(self, layouts: Sequence[Placements]) -> list[DTensorSpec]:
        tensors = self._tensors
        return [make_spec(self.mesh, p, t.meta) for p, t in zip(layouts, tensors, strict=True)]

    def replicated_specs(self) -> list[DTensorSpec]:
        """A spec for each tensor, as the walk counts them."""
        return self._specs([(Replicate(),) * self.mesh.ndim] * len(self._tensors))

    def question(self, rule: Rule, layouts: Sequence[Placements] | None = None) -> Question:
        """The question with these layouts of the operands; None: all replicated."""
        return self._asked(self.schema_with(layouts), rule)

    def schema_with(self, layouts: Sequence[Placements] | None = None) -> OpSchema:
        """The op's schema with these layouts of the operands; None: all replicated."""
        specs = self.replicated_specs() if layouts is None else self._specs(self.in_walk(layouts))
        return self.schema(specs)


def _read_tensor(
    item: Any, mesh: DeviceMesh, where: str
) -> tuple[TensorMeta, Sequence[Placements] | None]:
    if isinstance(item, TensorMeta):
        return item, None
    if isinstance(item, DTensor):
        _same_mesh(item.device_mesh, mesh, where)
        return meta_of(item), [tuple(item.placements)]
    if isinstance(item, torch.Tensor):
        return meta_of(item), None
    specs = [each.output_specs for each in getattr(item, "strategies", ())] or [item]
    for spec in specs:
        check_spec(where, spec)
        _same_mesh(spec.mesh, mesh, where)
        refuse_order(where, spec)
    return specs[0].tensor_meta, [tuple(spec.placements) for spec in specs]


def _same_mesh(its: DeviceMesh, mesh: DeviceMesh, where: str) -> None:
    if its is not mesh and its != mesh:
        raise ShardpropError(
            f"{where}: Expected a tensor on the mesh of the op, {mesh}, got {its}."
        )


def refuse_order(where: str, spec: DTensorSpec) -> None:
    """A layout is its placements; another shard order has to be told by strided shards.

    Raises:
        ShardpropError: the spec has a shard order of its own.
    """
    if spec.shard_order is not None and spec.shard_order != default_shard_order(spec.placements):
        raise ShardpropError(
            f"{where}: Expected the default shard order, got {spec.shard_order}. Write it as "
            "strided shards, which placements alone tell."
        )

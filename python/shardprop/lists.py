"""List ops (foreach and fused): one decision for each distinct element.

torch expands every element on its own. Elements that look alike to the rule and to the prices have
the same answer, so they are asked once and share the specs of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from . import _core, _torch
from ._torch import DTensorSpec, OpSchema, OutputSharding
from .engine import Choice, OutputMeta, Question
from .outputs import SpecMaker, differs

Choose = Callable[[Question], Choice]

__all__ = ["Elements", "decide_list_op", "is_tensor_list"]


def is_tensor_list(arg: object) -> TypeGuard[Sequence[DTensorSpec]]:
    """A list that torch takes apart: not empty, and nothing but tensors."""
    return (
        isinstance(arg, (list, tuple))
        and len(arg) > 0
        and all(isinstance(item, DTensorSpec) for item in arg)
    )


class Elements:
    """The elements of a list op, and which of them are alike.

    Attributes:
        length: Elements per list.
        group: Per element the index of its group.
        first: Per group its first element.

    Raises:
        _core.Unsupported: the lists differ in length, or a keyword argument is a list of tensors.
    """

    def __init__(self, schema: OpSchema) -> None:
        self._schema = schema
        self._lists = [arg for arg in schema.args_schema if is_tensor_list(arg)]
        self.length = len(self._lists[0])
        if any(len(items) != self.length for items in self._lists):
            raise _core.Unsupported("tensor lists of different lengths")
        if any(is_tensor_list(value) for value in schema.kwargs_schema.values()):
            raise _core.Unsupported("tensor list as a keyword argument")
        known: dict[tuple[object, ...], int] = {}
        self.group: list[int] = []
        self.first: list[int] = []
        for index in range(self.length):
            key = self._key(index)
            group = known.setdefault(key, len(known))
            if group == len(self.first):
                self.first.append(index)
            self.group.append(group)

    def _is_scalar_list(self, arg: object) -> TypeGuard[Sequence[object]]:
        if is_tensor_list(arg):
            return False
        return isinstance(arg, (list, tuple)) and len(arg) == self.length

    def _key(self, index: int) -> tuple[object, ...]:
        """What prices, rule and metadata can see of an element; of a scalar only its type."""
        specs = [_core.spec_key(items[index], by_address=True) for items in self._lists]
        scalars = [
            type(arg[index]) for arg in self._schema.args_schema if self._is_scalar_list(arg)
        ]
        return (*specs, *scalars)

    def at(self, index: int) -> tuple[Any, ...]:
        """The arguments for one element: lists of tensors give one, all else stays whole."""
        return tuple(arg[index] if is_tensor_list(arg) else arg for arg in self._schema.args_schema)

    def representatives(self) -> OpSchema:
        """The op on the first element of each group."""
        args = tuple(
            [arg[i] for i in self.first]
            if is_tensor_list(arg) or self._is_scalar_list(arg)
            else arg
            for arg in self._schema.args_schema
        )
        return OpSchema(self._schema.op, args, self._schema.kwargs_schema, self._schema.schema_info)

    def meta(self, propagate: Callable[[OpSchema], OutputMeta]) -> OutputMeta:
        """Output metadata of the whole op, from the representatives'."""
        if len(self.first) == self.length:
            return propagate(self._schema)
        meta = propagate(self.representatives())
        if not isinstance(meta, (list, tuple)) or len(meta) != len(self.first):
            # In place, or a fused op whose several outputs are no plain list.
            return meta if meta is None else propagate(self._schema)
        return type(meta)(meta[group] for group in self.group)


def _question(schema: OpSchema, elements: Elements, index: int, meta: OutputMeta) -> Question:
    args = elements.at(index)
    operands = [arg for arg in args if isinstance(arg, DTensorSpec)]
    keywords = [arg for arg in schema.kwargs_schema.values() if isinstance(arg, DTensorSpec)]
    return Question(
        op=schema.op,
        rule_op=_torch.elementwise_overload(schema.op),
        args=args,
        kwargs=schema.kwargs_schema,
        operands=operands + keywords,
        positional=len(operands),
        meta=None if meta is None else meta[index],  # type: ignore[arg-type]
        mesh=_torch.mesh_of(schema),
        is_element=True,
    )


class _Answers:
    """Chosen specs per group, made once and shared by the group's elements."""

    def __init__(
        self, schema: OpSchema, elements: Elements, meta: OutputMeta, choose: Choose
    ) -> None:
        self._elements = elements
        self._arguments = schema.args_spec
        self._meta = meta
        self._questions = [_question(schema, elements, i, meta) for i in elements.first]
        self._choices = [choose(question) for question in self._questions]
        self._makers = [SpecMaker(self._arguments, q.operands) for q in self._questions]
        self._wanted: dict[tuple[int, int], DTensorSpec] = {}
        self._outputs: dict[int, DTensorSpec] = {}

    def choice(self, index: int) -> Choice:
        return self._choices[self._elements.group[index]]

    def wanted(self, index: int, operand: int) -> DTensorSpec:
        group = self._elements.group[index]
        if (group, operand) not in self._wanted:
            self._wanted[group, operand] = self._makers[group].wanted(
                self._questions[group].operands[operand], self._choices[group], operand
            )
        return self._wanted[group, operand]

    def output(self, index: int) -> DTensorSpec:
        group = self._elements.group[index]
        if group not in self._outputs:
            placements = self._choices[group].outputs[0]
            meta = self._questions[group].meta
            if placements is None or not isinstance(meta, _torch.TensorMeta):
                raise _core.Unsupported("list element without tensor metadata")
            self._outputs[group] = self._makers[group].make(
                self._choices[group].mesh, placements, meta
            )
        return self._outputs[group]


def _output_specs(
    answers: _Answers, length: int, meta: OutputMeta
) -> tuple[DTensorSpec, ...] | None:
    if meta is None:
        return None
    if not isinstance(meta, (list, tuple)) or any(
        len(answers.choice(i).outputs) != 1 for i in range(length)
    ):
        raise _core.Unsupported("list op with several outputs per element")
    return tuple(answers.output(i) for i in range(length))


def decide_list_op(
    schema: OpSchema, elements: Elements, meta: OutputMeta, choose: Choose
) -> OutputSharding:
    """The decision for a list op; `choose` decides an element.

    Raises:
        As `choose` does.
    """
    answers = _Answers(schema, elements, meta, choose)
    moves = False
    args: list[object] = []
    operand = 0
    for arg in schema.args_schema:
        if is_tensor_list(arg):
            wanted: Sequence[DTensorSpec] = [
                answers.wanted(i, operand) for i in range(elements.length)
            ]
            # Elements of a group have equal placements, so one of each is enough.
            moves = moves or any(differs(arg[i], wanted[i]) for i in elements.first)
            args.append(tuple(wanted) if isinstance(arg, tuple) else wanted)
            operand += 1
        elif isinstance(arg, DTensorSpec):
            args.append(answers.wanted(0, operand))
            moves = moves or differs(arg, args[-1])  # type: ignore[arg-type]
            operand += 1
        else:
            args.append(arg)
    suggestion = OpSchema(schema.op, tuple(args), schema.kwargs_schema) if moves else None
    return OutputSharding(
        _output_specs(answers, elements.length, meta), suggestion, needs_redistribute=moves
    )

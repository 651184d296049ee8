"""List ops (foreach and fused): one decision for each distinct element.

torch expands every element on its own. Elements that look alike to the rule and to the prices have
the same answer, so they are asked once and share the specs of the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from .. import _core, _torch
from .._torch import DTensorSpec, OpSchema, OutputSharding
from ..model.op_traits import traits_of
from ..model.placements import Placements
from ..model.question import Choice, OutputMeta, Placed, Question
from ..rules.rule import Rule
from .answer import SpecMaker, moves

__all__ = ["Elements", "ListQuestion", "is_list_op", "is_tensor_list"]


def is_tensor_list(
    arg: object, tensors: type | tuple[type, ...] = DTensorSpec
) -> TypeGuard[Sequence[Any]]:
    """A list that torch takes apart: not empty, and nothing but `tensors`."""
    if not isinstance(arg, (list, tuple)) or not arg:
        return False
    return all(issubclass(kind, tensors) for kind in {*map(type, arg)})


def is_list_op(schema: OpSchema) -> bool:
    """Does torch decide it element by element?"""
    return traits_of(schema.op).is_list_op and any(map(is_tensor_list, schema.args_schema))


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
        self._args: tuple[Any, ...] = schema.args_schema
        # Per argument, for there are few of those and many elements.
        self._is_list = [is_tensor_list(arg) for arg in self._args]
        lists = self._arguments(self._is_list)
        self.length = len(lists[0])
        if any(len(items) != self.length for items in lists):
            raise _core.Unsupported("tensor lists of different lengths")
        if any(is_tensor_list(value) for value in schema.kwargs_schema.values()):
            raise _core.Unsupported("tensor list as a keyword argument")
        self._is_scalar_list = [
            isinstance(arg, (list, tuple)) and len(arg) == self.length and not is_list
            for arg, is_list in zip(self._args, self._is_list, strict=True)
        ]
        numbers = self._arguments(self._is_scalar_list)
        self.group, self.first = _core.group_alike([*map(list, lists)], [*map(list, numbers)])

    def _arguments(self, chosen: Sequence[bool]) -> list[Any]:
        return list(itertools.compress(self._args, chosen))

    def at(self, index: int) -> tuple[Any, ...]:
        """The arguments for one element: lists of tensors give one, all else stays whole."""
        return tuple(
            arg[index] if is_list else arg
            for arg, is_list in zip(self._args, self._is_list, strict=True)
        )

    def representatives(self) -> OpSchema:
        """The op on the first element of each group."""
        args = tuple(
            [arg[i] for i in self.first] if is_list or is_scalar_list else arg
            for arg, is_list, is_scalar_list in zip(
                self._args, self._is_list, self._is_scalar_list, strict=True
            )
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


def element_question(
    schema: OpSchema, elements: Elements, index: int, meta: OutputMeta
) -> Question:
    """The question that one element puts; `meta` is that of the whole op's outputs."""
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


class ListQuestion:
    """A list op: a question for each group of elements that are alike.

    Args:
        schema: The op.
        rule: By what an element is decided.
        meta_of: Gives the metadata of the outputs.

    Attributes:
        questions: Per group the question that its first element puts.
        elements: The elements.

    Raises:
        _core.Unsupported: as `Elements`.
        Exception: what `meta_of` raises.
    """

    def __init__(
        self, schema: OpSchema, rule: Rule, meta_of: Callable[[OpSchema], OutputMeta]
    ) -> None:
        self.elements = Elements(schema)
        self._schema = schema
        self._meta = self.elements.meta(meta_of)
        rule.check(schema, self._meta)
        self.questions = [
            element_question(schema, self.elements, index, self._meta)
            for index in self.elements.first
        ]

    def sharding(self, choices: Sequence[Choice]) -> OutputSharding:
        """The decision of the whole op; `choices` are those of the questions.

        Raises:
            _core.Unsupported: outputs and metadata do not fit; torch words that error.
        """
        answers = _Answers(self.elements, self.questions, choices)
        output = _output_specs(answers, self._meta)
        given = self._schema.args_schema
        operands = [arg for arg in given if is_tensor_list(arg) or isinstance(arg, DTensorSpec)]
        if not any(answers.moves(place, is_tensor_list(arg)) for place, arg in enumerate(operands)):
            return OutputSharding(output)
        args: list[object] = []
        operand = 0
        for arg in given:
            if is_tensor_list(arg):
                wanted = answers.wanted(operand)
                args.append(tuple(wanted) if isinstance(arg, tuple) else wanted)
                operand += 1
            elif isinstance(arg, DTensorSpec):
                args.append(answers.wanted(operand)[0])
                operand += 1
            else:
                args.append(arg)
        suggestion = OpSchema(self._schema.op, tuple(args), self._schema.kwargs_schema)
        return OutputSharding(output, suggestion, needs_redistribute=True)

    def placed(self, choices: Sequence[Choice]) -> Placed:
        """Where the choices want each operand, lists flattened; what is one tensor for all elements
        is where the first element's choice wants it."""
        group = self.elements.group
        operands: list[tuple[Placements, float]] = []
        place = 0
        for arg in self._schema.args_schema:
            if is_tensor_list(arg):
                operands += [_operand(choices[g], place) for g in group]
                place += 1
            elif isinstance(arg, DTensorSpec):
                operands.append(_operand(choices[0], place))
                place += 1
        operands += [_operand(choices[0], k) for k in range(place, len(choices[0].operands))]
        return Placed(
            tuple(placements for placements, _ in operands),
            tuple(cost for _, cost in operands),
            # Kind by kind, as an explanation sums them.
            sum(choice.cost * group.count(g) for g, choice in enumerate(choices)),
        )


def _operand(choice: Choice, place: int) -> tuple[Placements, float]:
    """Where a choice wants an operand, and what it costs to bring it there: keyword arguments,
    which torch does not move, have no price."""
    costs = choice.operand_costs
    return choice.operands[place], costs[place] if place < len(costs) else 0.0


class _Answers:
    """Chosen specs per group, made once and shared by the group's elements."""

    def __init__(
        self, elements: Elements, questions: Sequence[Question], choices: Sequence[Choice]
    ) -> None:
        self._group = elements.group
        self._questions = questions
        self._choices = choices
        # The groups' first elements say what all of them would.
        arguments = elements.representatives().args_spec
        self._makers = [SpecMaker(arguments, q.operands) for q in questions]

    def _spread(self, specs: Sequence[DTensorSpec]) -> list[DTensorSpec]:
        """Per group to per element."""
        return [specs[group] for group in self._group]

    def wanted(self, operand: int) -> list[DTensorSpec]:
        """The specs that an operand is to have, per element."""
        answers = zip(self._questions, self._choices, self._makers, strict=True)
        return self._spread(
            [
                maker.wanted(question.operands[operand], choice, operand)
                for question, choice, maker in answers
            ]
        )

    def moves(self, operand: int, is_list: bool) -> bool:
        """Is an operand to have other placements? What is no list is one tensor for all elements,
        and torch takes the first one's word for it."""
        groups = len(self._questions) if is_list else 1
        return any(
            moves(question.operands[operand], choice, operand)
            for question, choice in zip(self._questions[:groups], self._choices, strict=False)
        )

    def outputs(self) -> tuple[DTensorSpec, ...]:
        """The specs of the outputs, of which every element has one."""
        answers = zip(self._questions, self._choices, self._makers, strict=True)
        return tuple(self._spread([_output(*answer) for answer in answers]))


def _output(question: Question, choice: Choice, maker: SpecMaker) -> DTensorSpec:
    if len(choice.outputs) != 1:
        raise _core.Unsupported("list op with several outputs per element")
    placements, meta = choice.outputs[0], question.meta
    if placements is None or not isinstance(meta, _torch.TensorMeta):
        raise _core.Unsupported("list element without tensor metadata")
    return maker.make(choice.mesh, placements, meta)


def _output_specs(answers: _Answers, meta: OutputMeta) -> tuple[DTensorSpec, ...] | None:
    if meta is None:
        return None
    if not isinstance(meta, (list, tuple)):
        raise _core.Unsupported("list op with several outputs per element")
    return answers.outputs()

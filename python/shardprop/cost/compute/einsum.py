"""Operations of aten.einsum: its operands are multiplied two by two from the left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from ...errors import ShardpropError
from .call import Call

__all__ = ["flops"]

# A dim that `...` stands for, counted from the last one; labels are letters.
_Label = str | int


def flops(call: Call) -> int:
    """2 for each combination of the labels of two operands, where some label is summed over; a
    product without a sum is no matrix product, and its bytes tell what it costs."""
    equation = str(call.values["equation"]).replace(" ", "")
    shapes = [operand.shape for operand in call.tensors_of("tensors")]
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    named = [_labels(term, len(shape)) for term, shape in zip(terms, shapes, strict=False)]
    if list(map(len, named)) != list(map(len, shapes)) or len(terms) != len(shapes):
        raise ShardpropError(
            f"{call.op}: Expected shapes for the equation {equation!r}, got {shapes}."
        )
    sizes = _sizes(named, shapes)
    labels = [set(names) for names in named]
    kept = set(_output_labels(terms, labels, output if arrow else None))
    return sum(2 * prod(sizes[name] for name in pair) for pair in _summed_pairs(labels, kept))


def _summed_pairs(labels: list[set[_Label]], kept: set[_Label]) -> Iterator[set[_Label]]:
    """The labels of each product of two that sums over labels of both."""
    left = labels[0]
    for number, right in enumerate(labels[1:], 1):
        later = kept.union(*labels[number + 1 :])
        # What one of the two alone has, and nothing later needs, is summed before.
        both = left & right
        left, right = left & (right | later), right & (left | later)
        if both - later:
            yield left | right
        left = (left | right) & later


def _sizes(
    named: Sequence[Sequence[_Label]], shapes: Sequence[tuple[int, ...]]
) -> dict[_Label, int]:
    """The size of each label; a dim of size 1 is broadcast to the others of its label."""
    found: dict[_Label, set[int]] = {}
    for names, shape in zip(named, shapes, strict=True):
        for name, size in zip(names, shape, strict=True):
            found.setdefault(name, set()).add(size)
    return {name: 0 if 0 in of_name else max(of_name) for name, of_name in found.items()}


def _labels(term: str, ndim: int) -> list[_Label]:
    before, dots, after = term.partition("...")
    hidden = ndim - len(before) - len(after) if dots else 0
    return [*before, *range(-hidden, 0), *after]


def _output_labels(
    terms: list[str], labels: list[set[_Label]], output: str | None
) -> Iterator[_Label]:
    """The labels of the output: without an arrow those that come once."""
    yield from (name for found in labels for name in found if isinstance(name, int))
    if output is None:
        counts = Counter("".join(terms).replace(".", ""))
        yield from (name for name, count in counts.items() if count == 1)
    else:
        yield from output.replace(".", "")

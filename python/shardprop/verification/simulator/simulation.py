"""A call on the ranks of a mesh: operands split, the op run on each rank, the results joined."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from ..._torch import Partial, Placement, Replicate, is_partial, is_shard
from ...model.placements import Placements
from ..calls.call import Call
from .compare import difference, is_rounded, largest, tolerance
from .execution import Executable, Outcome, expected_of
from .partials import Untestable
from .ranks import Mismatch, join, local_shapes, split, summed_scale

__all__ = [
    "Data",
    "Raised",
    "Row",
    "Simulation",
    "is_mixed",
    "is_replicated",
    "layouts_of",
    "simulations",
    "telling",
    "varied",
]

_ADDED = ("sum", "avg")
_ARITHMETIC = (*_ADDED, "product")
_SETS_OF_DATA = 2
_ROUNDS = 6


class Row(NamedTuple):
    """Placements on one mesh dim.

    Attributes:
        outputs: Per output tensor, lists walked; None for one that is absent.
        inputs: Per operand, in the order of `Call.tensors`.
    """

    outputs: tuple[Placement | None, ...]
    inputs: tuple[Placement, ...]


class Data(NamedTuple):
    """Whole operands, and what the op makes of them."""

    operands: list[torch.Tensor]
    expected: Outcome


class Raised(str):
    """Why rows do not hold: the error of a rank, so that a program at least sees it."""


def varied(executable: Executable) -> list[Data]:
    """The call's own data, and other data where the op takes it: a row may hold by chance where all
    elements are positive, or an operand is 0 or 1.

    Raises:
        Untestable: the call says nothing about a rule.
        Exception: what the op raises on its own data.
    """
    own = Data(executable.operands, expected_of(executable))
    exact = not any(is_rounded(operand.dtype) for operand in executable.operands)
    turn = _turned_exactly if exact else _turned
    # What `out=` holds says nothing, and cannot be a part of a norm once it is negative.
    others = [
        operand if at in executable.outs else turn(operand)
        for at, operand in enumerate(executable.operands)
    ]
    if all(a is b for a, b in zip(others, executable.operands, strict=True)):
        return [own, own]
    try:
        return [own, Data(others, executable.run(others))]
    except Exception:  # the op decides what it accepts
        return [own, own]


def _turned_exactly(operand: torch.Tensor) -> torch.Tensor:
    """Other bools, other integers, of which none that is not negative becomes so."""
    if operand.dtype is torch.bool:
        return ~operand
    return (operand.clamp(max=torch.iinfo(operand.dtype).max - 3) + 3).to(operand.dtype)


def _turned(operand: torch.Tensor) -> torch.Tensor:
    """Floats of the other sign and scale; integers beside them may be indices.

    What is sorted along its last dim is so again: an op may search in it.
    """
    dtype = operand.dtype
    if not is_rounded(dtype) or dtype.itemsize < 2:
        return operand
    values = operand * -1.37
    if _is_sorted(operand):
        values = values.flip(-1)
    turned = torch.empty_like(operand)
    return turned.copy_(values)


def _is_sorted(tensor: torch.Tensor) -> bool:
    if tensor.ndim == 0 or tensor.is_complex():
        return False
    return bool((tensor[..., 1:] >= tensor[..., :-1]).all())


class Simulation:
    """One set of data on one mesh, with one set of random parts.

    Args:
        executable: The call.
        data: Its operands, and what it makes of them.
        sizes: Sizes of the mesh dims.
        seed: Of the random parts.
        local: Parts that are not to be random: the local tensors of operands in a layout.

    Attributes:
        executable: The call.
        operands: Its whole operands.
        expected: What it makes of them.
        sizes: Sizes of the mesh dims.
        seed: Of the random parts.
        runs: Layouts that the op was run on.
    """

    def __init__(
        self,
        executable: Executable,
        data: Data,
        sizes: tuple[int, ...],
        seed: int,
        local: Mapping[tuple[int, Placements], list[torch.Tensor]] | None = None,
    ) -> None:
        self.executable = executable
        self.operands, self.expected = data
        self.sizes = sizes
        self.seed = seed
        self.runs = 0
        self._largest = [0.0 if x is None else largest(x) for x in self.expected.outputs]
        self._aliases = executable.alias_of(len(self.expected.outputs))
        self._local: dict[tuple[int, Placements], list[torch.Tensor] | Untestable] = {
            **(local or {})
        }
        self._ran: dict[object, list[Outcome] | str] = {}

    def alias(self, output: int) -> int | None:
        """The operand that an output is."""
        return self._aliases[output]

    def local(self, operand: int, layout: Placements) -> list[torch.Tensor]:
        """The local tensors of an operand.

        Raises:
            Untestable: it cannot be laid out so.
        """
        key = operand, layout
        held = self._local.get(key)
        if held is None:
            salt = zlib.crc32(f"{self.seed} {operand} {layout}".encode())
            rng = torch.Generator().manual_seed(salt)
            try:
                self._refuse_flags_as_numbers(operand, layout)
                held = split(self.operands[operand], layout, self.sizes, rng)
            except Untestable as error:
                held = error
            self._local[key] = held
        if isinstance(held, Untestable):
            raise held
        return held

    def _refuse_flags_as_numbers(self, operand: int, layout: Placements) -> None:
        """A pending sum of flags is a logical or, which no sum of numbers commutes with. Beside
        numbers a program has flags replicated or cut; a rule that says the same of all dtypes,
        as that of an addition, is not to be blamed for it on a call that nobody makes."""
        if self.operands[operand].dtype is not torch.bool or not self.executable.call.is_made_up:
            return
        summed = [p for p in layout if is_partial(p) and p.reduce_op in _ARITHMETIC]  # type: ignore[attr-defined]
        if summed and any(is_rounded(x.dtype) for x in self.operands):
            raise Untestable(f"{summed[0]} of flags beside numbers")

    def says_nothing(self) -> bool:
        """Are all outputs zeros or NaN, and an operand too: one that it is multiplied with, maybe?
        Outputs that are so of themselves, as those of zeros_like, are not meant."""
        outs = self.executable.outs
        return (
            any(_is_blank(x) for i, x in enumerate(self.operands) if i not in outs)
            and any(x is not None for x in self.expected.outputs)
            and all(x is None or _is_blank(x) for x in self.expected.outputs)
        )

    def has_equal_parts(self, operand: int, layout: Placements) -> bool:
        """Do all ranks hold the same, so that nothing is seen of a Partial?"""
        first, *others = self.local(operand, layout)
        return all(torch.equal(first, other) for other in others)

    def _run(
        self, inputs: tuple[Placements, ...], output: Placements | None
    ) -> list[Outcome] | str:
        ranks = self._of_ranks(inputs, output)
        self.runs += 1
        made: list[Outcome] = []
        for rank, (operands, shape) in enumerate(ranks):
            try:
                made.append(self.executable.run(operands, shape))
            except Exception as error:  # whatever an op raises on a rank is what a user would see
                return _failure(rank, operands, error)
            if len(made[-1].outputs) != len(self.expected.outputs):
                return f"rank {rank}: {len(made[-1].outputs)} outputs"
        return made

    def _of_ranks(
        self, inputs: tuple[Placements, ...], output: Placements | None
    ) -> list[tuple[tuple[torch.Tensor, ...], tuple[int, ...] | None]]:
        """Per rank its operands, and the shape of its output where arguments hold that."""
        local = [self.local(index, layout) for index, layout in enumerate(inputs)]
        operands = list(zip(*local, strict=True))
        whole = self.expected.outputs[0] if output is not None else None
        if output is None or whole is None:
            return [(of_rank, None) for of_rank in operands]
        return list(zip(operands, local_shapes(whole.shape, output, self.sizes), strict=True))

    def calls(self, rows: Sequence[Row]) -> list[Call]:
        """The call that each rank makes, rows being one for each mesh dim. All its tensors are
        objects of their own."""
        inputs, outputs = layouts_of(rows)
        return [
            self.executable.call_on([x.view_as(x) for x in operands], shape)
            for operands, shape in self._of_ranks(inputs, self._rewritten_for(outputs[:1]))
        ]

    def _rewritten_for(self, outputs: Sequence[Placements | None]) -> Placements | None:
        """The output's layout, where arguments with its shape are rewritten for it."""
        if not outputs or outputs[0] is None or not self.executable.rewrites_shape:
            return None
        return outputs[0] if any(map(is_shard, outputs[0])) else None

    def local_outputs(
        self, inputs: tuple[Placements, ...], output: Placements | None = None
    ) -> list[Outcome] | str:
        """What the ranks make of operands laid out as `inputs`; the error where one raises one.

        `output` is the layout that arguments with the output's shape are rewritten for.

        Raises:
            Untestable: an operand cannot be laid out so.
        """
        key = inputs, self._rewritten_for([output])
        if key not in self._ran:
            self._ran[key] = self._run(*key)
        return self._ran[key]

    def output_mismatch(
        self, made: Sequence[Outcome], output: int, layout: Placements
    ) -> str | None:
        """Why the local outputs are not the whole one laid out as `layout`; None if they are."""
        whole = self.expected.outputs[output]
        local = [outcome.outputs[output] for outcome in made]
        if whole is None:
            return None if all(x is None for x in local) else "an output that should be absent"
        present = [x for x in local if x is not None]
        if len(present) != len(local):
            return "an output that is absent on some rank"
        return self.mismatch_of(present, layout, whole, self._largest[output])

    def mismatch_of(
        self, local: list[torch.Tensor], layout: Placements, whole: torch.Tensor, scale: float
    ) -> str | None:
        """Why local tensors, up to `scale`, are not the whole one laid out so; None if they are."""
        try:
            joined = join(local, layout, self.sizes, whole.shape)
        except Mismatch as error:
            return str(error)
        if any(is_partial(p) and p.reduce_op in _ADDED for p in layout):  # type: ignore[attr-defined]
            joined = _with_lost_infinities(joined, whole)
        return difference(joined, whole, max(scale, summed_scale(local, layout)))

    def tolerance(
        self, made: Sequence[torch.Tensor], layout: Placements, whole: torch.Tensor
    ) -> float:
        """How far what the ranks hold together may be off."""
        return tolerance(whole.dtype, max(largest(whole), summed_scale(list(made), layout)))

    def written_mismatch(
        self, made: Sequence[Outcome], inputs: tuple[Placements, ...]
    ) -> str | None:
        """Why what was written to is not what it should be, in the layout that it came in."""
        for operand, whole in self.expected.written.items():
            if operand in self.executable.outs:
                continue  # it is an output, and checked as that
            local = [outcome.written[operand] for outcome in made]
            reason = self.mismatch_of(local, inputs[operand], whole, largest(whole))
            if reason is not None:
                return f"operand {operand}, written to: {reason}"
        return None

    def mismatch(self, rows: Sequence[Row]) -> str | None:
        """Why rows, one for each mesh dim, give another result than the whole tensors; None if
        they give the same.

        Raises:
            Untestable: simulated ranks cannot say.
        """
        inputs, outputs = layouts_of(rows)
        if len(inputs) != len(self.operands) or len(outputs) != len(self.expected.outputs):
            raise Untestable("rows with more or fewer outputs than the call has")
        made = self.local_outputs(inputs, *outputs[:1])
        if isinstance(made, str):
            return made
        for index, layout in enumerate(outputs):
            alias = self._aliases[index]
            if alias is not None and layout != inputs[alias]:
                return f"output {index} is operand {alias}, which is placed otherwise"
            if layout is None:
                continue  # the rule has nothing to say of it
            reason = self.output_mismatch(made, index, layout)
            if reason is not None:
                return reason if len(outputs) == 1 else f"output {index}: {reason}"
        return self.written_mismatch(made, inputs)


def _with_lost_infinities(summed: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    """The sum with an infinity or NaN of the whole tensor where it has another one: 5 / 0 is not
    2 / 0 + 3 / 0 where one part is negative, and no rule of a linear op asks for divisors."""
    if not is_rounded(whole.dtype) or summed.shape != whole.shape:
        return summed
    lost = ~(whole.isfinite() | summed.isfinite())
    return torch.where(lost, whole, summed) if bool(lost.any()) else summed


def _failure(rank: int, operands: Sequence[torch.Tensor], error: Exception) -> Raised:
    text = str(error).strip().partition("\n")[0]
    # torch asks for as many elements as ranks; chunks are rounded up, and the last may be empty.
    empty = any(not operand.numel() for operand in operands)
    where = f"rank {rank}, of which a shard is empty" if empty else f"rank {rank}"
    return Raised(f"{where}: {type(error).__name__}: {text}")


def layouts_of(rows: Sequence[Row]) -> tuple[tuple[Placements, ...], list[Placements | None]]:
    """The layouts of the operands and of the outputs, rows being one for each mesh dim."""
    inputs = tuple(zip(*(row.inputs for row in rows), strict=True))
    return inputs, [_layout(column) for column in zip(*(row.outputs for row in rows), strict=True)]


def _layout(column: Sequence[Placement | None]) -> Placements | None:
    present = [placement for placement in column if placement is not None]
    return tuple(present) if len(present) == len(column) else None


def _is_blank(whole: torch.Tensor) -> bool:
    """Zeros or NaN alone."""
    return whole.numel() > 0 and bool((whole == 0).all() | whole.isnan().all())


def simulations(
    executable: Executable, data: Sequence[Data], sizes: tuple[int, ...], seed: int
) -> list[Simulation]:
    """Simulations with random parts of their own, the first ones each with other data.

    An output of a few elements may well be right by chance, above all an index: half of the time,
    for each element, where the operand is a maximum that one of two ranks has.
    """
    rounds = _ROUNDS if len(data) > 1 else 1
    return [
        Simulation(executable, one, sizes, seed * 1009 + index)
        for index, one in enumerate(itertools.islice(itertools.cycle(data), rounds))
    ]


def telling(trials: Sequence[Simulation], rows: Sequence[Row]) -> Sequence[Simulation]:
    """The trials that tell something new of rows: without random parts, one per set of data."""
    random = any(is_partial(p) for row in rows for p in row.inputs)
    return trials if random else trials[:_SETS_OF_DATA]


def is_mixed(layout: Placements) -> bool:
    """Two kinds of Partial in one layout, which torch refuses (but for sum and avg)."""
    kinds = {str(p) for p in layout if is_partial(p)}
    return len(kinds) > 1 and kinds != {str(Partial("sum")), str(Partial("avg"))}


def is_replicated(placements: Sequence[Placement]) -> bool:
    """Are all of them Replicate?"""
    return all(type(p) is Replicate for p in placements)

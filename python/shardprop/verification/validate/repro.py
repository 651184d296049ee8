"""A finding as a script of a page: the op on what every rank holds, against the op on the whole.

The script has the local tensors as literals, and nothing but torch (and what defines the op where
that is not torch's own), so that it says the same wherever it is run.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import keyword
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..._torch import NormPartial, Partial, Placement, Replicate, Shard, is_shard
from ...model.placements import Placements
from ..calls.call import Call, is_plain
from ..crash_isolation import last_apart
from ..settings import Settings
from ..simulator.compare import largest
from ..simulator.execution import Outcome, outputs_in
from ..simulator.partials import folded_by_name
from ..simulator.ranks import cut_order_of, local_shapes, places_of
from ..simulator.simulation import layouts_of
from ..texts import row_text
from .shrink import Witness, ever_smaller

__all__ = [
    "DEFINE_HERE",
    "Unwritable",
    "joined",
    "literal",
    "script",
    "smallest_script",
    "tensor_text",
]

# Stands in the script of an op that is not torch's own, to be replaced by what defines the op.
DEFINE_HERE = "# Import here what defines the op."

_WIDTH = 96
# Elements that are written one by one, even if they are all the same.
_SHORT = 3

_HEAD = '''"""{title}

Written by `shardprop validate`; needs {needed}. It ends with an error if the ranks together
do not hold what the op gives on the whole tensors.
"""

import torch
from torch import inf, nan, tensor
{define}
op = torch.ops.{op}
'''

_COMPARE = """

def compare(together, whole, atol):
    print("the ranks together:", together)
    print("the whole:", whole)
    torch.testing.assert_close(together, whole, rtol=0, atol=atol, equal_nan=True)


# Together the ranks have to hold the same."""

_TAKEN = frozenset(("op", "compare", "torch", "tensor", "inf", "nan", "whole", "on_rank"))


def smallest_script(
    witness: Witness,
    settings: Settings,
    deadline: float = math.inf,
    is_claimed: Callable[[Witness], bool] | None = None,
) -> str:
    """The script of the smallest witness found that has one; see `ever_smaller` and `script`."""
    if not settings.scripts:
        return ""

    def scripts() -> Iterator[str]:
        yield from filter(None, map(script, ever_smaller(witness, is_claimed)))

    if settings.apart:
        return last_apart(scripts, deadline) or ""
    *_, last = ("", *scripts())
    return last


def script(witness: Witness) -> str:
    """A script that fails if the rows of a witness do not hold.

    Returns:
        The script; "" where there is none: an argument has no literal.
    """
    try:
        text = "\n".join(_Writer(witness).lines()) + "\n"
    except Unwritable:
        return ""
    return text if _fails(text) is (witness.reason is not None) else ""


def _fails(text: str) -> bool:
    """Run a script. What it is to show has been seen on the same tensors: it raises nothing new."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, "repro", "exec"), {})
    except Exception:
        return True
    return False


class Unwritable(Exception):
    """Something that has no literal."""


class _Writer:
    def __init__(self, witness: Witness) -> None:
        self._rows, self._reason = witness.rows, witness.reason
        self._trial = trial = witness.trial
        self._inputs, self._outputs = layouts_of(witness.rows)
        self._executable = trial.executable
        self._whole = self._executable.call_on([x.view_as(x) for x in trial.operands])
        self._ranks = trial.calls(witness.rows)
        self._names = dict(_names(self._executable.arguments))

    def lines(self) -> Iterator[str]:
        """The script."""
        yield self._head()
        yield "# What every rank holds of each operand, and the whole tensor."
        for at in range(len(self._inputs)):
            yield from self._operand(at)
        yield "\n# The op on the whole tensors, and on every rank."
        yield from self._calls()
        made = self._trial.local_outputs(self._inputs, *self._outputs[:1])
        if not isinstance(made, str):  # else a rank raises
            yield _COMPARE
            yield from self._comparisons(made)

    def _head(self) -> str:
        op = self._executable.call.op
        is_torchs = op.namespace in ("aten", "prims")
        rows = "; ".join(map(row_text, self._rows))
        mesh = " x ".join(map(str, self._trial.sizes))
        said = (self._reason or "holds").replace("\\", "/").replace('"', "'")
        return _HEAD.format(
            title=textwrap.fill(f"{op}, {rows} on {mesh} ranks: {said}", _WIDTH),
            needed="torch alone" if is_torchs else "torch and the module that defines the op",
            define="" if is_torchs else f"\n{DEFINE_HERE}\n",
            op=self._whole.op,
        )

    def _operand(self, at: int) -> Iterator[str]:
        name, layout = self._names[at], self._inputs[at]
        local = self._trial.local(at, layout)
        whole = self._trial.operands[at]
        if all(type(placement) is Replicate for placement in layout):
            yield f"{name} = {tensor_text(whole)}"
            copies = f"{name}.clone() for _ in range({len(local)})"
            writes = at in self._executable.written
            yield f"{name}_on = [{copies if writes else ', '.join([name] * len(local))}]  # R"
            return
        yield from _listed(
            f"{name}_on = ", [tensor_text(x) for x in local], f"  # {_shown(layout)}"
        )
        parts = [f"{name}_on[{rank}]" for rank in range(len(local))]
        yield f"{name} = {_bare(self._joined(parts, layout, whole)[0])}"

    def _joined(self, parts: Sequence[str], layout: Placements, whole: torch.Tensor) -> list[str]:
        return joined(parts, layout, self._trial.sizes, whole.shape, whole.dtype)

    def _calls(self) -> Iterator[str]:
        whole = self._called(self._whole, [*self._names.values()])
        ranks = [
            self._called(call, [f"{name}_on[{rank}]" for name in self._names.values()])
            for rank, call in enumerate(self._ranks)
        ]
        if self._trial.expected.outputs:
            yield f"whole = {whole}"
            yield from _listed("on_rank = ", ranks)
        else:
            yield from (whole, *ranks)

    def _called(self, call: Call, names: Sequence[str]) -> str:
        known = {id(x): name for x, name in zip(call.tensors, names, strict=True)}
        given = [literal(value, known) for value in call.args]
        given += [f"{name}={literal(value, known)}" for name, value in call.kwargs.items()]
        op = "op" if call.op is self._whole.op else f"torch.ops.{call.op}"
        return _wrapped(f"{op}({', '.join(given)})")

    def _comparisons(self, made: Sequence[Outcome]) -> Iterator[str]:
        expected = self._trial.expected
        for at, (behind, layout) in enumerate(zip(self._paths(), self._outputs, strict=True)):
            local = [x for one in made if (x := one.outputs[at]) is not None]
            whole = expected.outputs[at]
            if layout is not None and whole is not None:
                parts = [f"on_rank[{rank}]{behind}" for rank in range(len(self._ranks))]
                yield from self._comparison(parts, local, layout, f"whole{behind}", whole)
        aliases = {self._trial.alias(at) for at in range(len(expected.outputs))}
        for at, whole in expected.written.items():
            if at not in aliases and at not in self._executable.outs:
                local = [one.written[at] for one in made]
                parts = [f"{self._names[at]}_on[{rank}]" for rank in range(len(self._ranks))]
                yield from self._comparison(parts, local, self._inputs[at], self._names[at], whole)

    def _paths(self) -> list[str]:
        """What stands behind a result to get at each output."""
        copy = self._executable.call_on([x.clone() for x in self._trial.operands])
        return list(outputs_in(copy.op(*copy.args, **copy.kwargs)))

    def _comparison(
        self,
        parts: Sequence[str],
        local: list[torch.Tensor],
        layout: Placements,
        name: str,
        whole: torch.Tensor,
    ) -> Iterator[str]:
        if self._reason and not self._trial.mismatch_of(local, layout, whole, largest(whole)):
            return
        shapes = [tuple(shape) for shape in local_shapes(whole.shape, layout, self._trial.sizes)]
        if [tuple(x.shape) for x in local] != shapes:
            yield f"shapes = {shapes}  # of {_shown(layout)}"
            yield f"assert [tuple(x.shape) for x in [{', '.join(parts)}]] == shapes"
        atol = self._trial.tolerance(local, layout, whole)
        for together in self._joined(parts, layout, whole):
            yield f"compare({_bare(together)}, {name}, {atol:.1g})  # {_shown(layout)}"


def _names(arguments: dict[str, list[int]]) -> Iterator[tuple[int, str]]:
    """Names for the operands: of their arguments, numbered in lists."""
    for name, operands in arguments.items():
        plain = f"{name}_" if name in _TAKEN or keyword.iskeyword(name) else name
        for number, operand in enumerate(operands):
            yield operand, plain if len(operands) == 1 else f"{plain}_{number}"


def joined(
    parts: Sequence[str],
    layout: Sequence[Placement],
    sizes: Sequence[int],
    shape: Sequence[int],
    dtype: torch.dtype,
) -> list[str]:
    """Expressions for the whole tensor that parts stand for: as many as there are replicas."""
    order = cut_order_of(layout, sizes)
    in_turn = [parts[rank] for rank in order.ranks]
    return _joined(in_turn, order.placements, order.mesh_sizes, shape, dtype)


def _joined(
    parts: Sequence[str],
    layout: Sequence[Placement],
    sizes: Sequence[int],
    shape: Sequence[int],
    dtype: torch.dtype,
) -> list[str]:
    if not sizes:
        return list(parts)
    (first, *rest), (ranks, *inner) = layout, sizes
    each = len(parts) // ranks
    pieces = local_shapes(shape, [first], [ranks])
    groups = [
        _joined(parts[each * rank : each * (rank + 1)], rest, inner, piece, dtype)
        for rank, piece in enumerate(pieces)
    ]
    if type(first) is Replicate:
        return list(itertools.chain.from_iterable(groups))
    return [_one(same, first, shape, dtype) for same in zip(*groups, strict=True)]


def _one(
    pieces: Sequence[str], placement: Placement, shape: Sequence[int], dtype: torch.dtype
) -> str:
    """What the pieces of one mesh dim are together."""
    if is_shard(placement):
        dim: int = placement.dim  # type: ignore[attr-defined]
        whole = f"torch.cat([{', '.join(pieces)}], {dim})"
        if isinstance(placement, Shard):
            return whole
        places = places_of(shape[dim], placement, len(pieces))
        return f"{whole}.index_select({dim}, tensor({places}))"
    if isinstance(placement, NormPartial):
        powers = " + ".join(f"{piece} ** {placement.norm_type}" for piece in pieces)
        return f"({powers}) ** (1 / {placement.norm_type})"
    assert isinstance(placement, Partial)
    folded = folded_by_name(dtype, placement.reduce_op)
    if not folded.isidentifier():
        whole = f" {folded} ".join(pieces)
        return f"({whole}) / {len(pieces)}" if placement.reduce_op == "avg" else f"({whole})"
    whole, *others = pieces
    for other in others:
        whole = f"torch.{folded}({whole}, {other})"
    return whole


def _bare(expression: str) -> str:
    """Without the parentheses around all of a sum or the like."""
    inner = expression[1:-1]
    return expression if expression[0] != "(" or set("()") & set(inner) else inner


def _shown(layout: Placements) -> str:
    return ", ".join(map(str, layout))


def _wrapped(code: str) -> str:
    """What stands in parentheses, on as many lines as it needs."""
    if len(code) <= _WIDTH - 8:
        return code
    return textwrap.fill(code, _WIDTH - 4, subsequent_indent="    ", break_long_words=False)


def _listed(head: str, items: Sequence[str], note: str = "") -> Iterator[str]:
    """A list on one line, if it is short enough."""
    line = f"{head}[{', '.join(items)}]{note}"
    if len(line) <= _WIDTH and not any("\n" in item for item in items):
        yield line
        return
    yield f"{head}[{note}"
    yield from (f"{textwrap.indent(item, '    ')}," for item in items)
    yield "]"


def literal(value: Any, names: dict[int, str]) -> str:
    """An argument as Python, tensors by their names.

    Raises:
        Unwritable: it has no literal.
    """
    if isinstance(value, torch.Tensor):
        return names[id(value)]
    if isinstance(value, (list, tuple)):
        items = [literal(item, names) for item in value]
        return f"[{', '.join(items)}]"
    if isinstance(value, torch.device):
        return f"torch.{value!r}" if not repr(value).startswith("torch.") else repr(value)
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)  # nan and inf are names in the script
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    raise Unwritable


def tensor_text(value: torch.Tensor) -> str:
    """A tensor as Python.

    Raises:
        Unwritable: it has no literal.
    """
    if not is_plain(value):
        raise Unwritable
    shape = tuple(value.shape)
    kind = "" if value.dtype in (torch.float32, torch.int64, torch.bool) else f"dtype={value.dtype}"
    if value.numel() == 0:
        text = f"torch.empty({shape}, dtype={value.dtype})"
    elif value.numel() > _SHORT and bool((value == value.flatten()[0]).all()):
        one = _numbers(_listed_elements(value.flatten()[0]))
        text = f"torch.full({shape}, {one}{', ' * bool(kind)}{kind})"
    else:
        text = f"tensor({_numbers(_listed_elements(value))}{', ' * bool(kind)}{kind})"
    if value.is_contiguous() or 0 in value.stride() or value.numel() == 0:
        return text
    strided = f"torch.empty_strided({shape}, {value.stride()}, dtype={value.dtype})"
    return f"{strided}.copy_({text})"


def _listed_elements(value: torch.Tensor) -> Any:
    """The elements in nested lists, floats of 32 bits with no more digits than they have."""
    if value.dtype is torch.float32 and value.ndim == 0:
        exact = value.item()
        rounded = (float(f"{exact:.{digits}g}") for digits in range(6, 10))
        return next(x for x in rounded if value.equal(torch.tensor(x)) or x != x)
    if value.dtype is torch.float32:
        return [_listed_elements(one) for one in value]
    return value.tolist()


def _numbers(values: Any, indent: int = 8) -> str:
    """Nested lists, a line for each row where one is not enough."""
    text = re.sub(r"\.0(?!\d)", ".", repr(values))
    if len(text) <= _WIDTH - 20 or not isinstance(values[0], list):
        return text
    rows = f",\n{' ' * indent}".join(_numbers(value, indent + 1) for value in values)
    return f"[{rows}]"

"""Arguments of an op as they are typed: ``f32[512,1024]@S(0),R``, ``[f32[4]@R, f32[4]@P]``, ``1``.

A tensor is dtype, shape and placements, one for each mesh dim, in torch's short form: ``R``,
``S(0)``, ``P`` or ``P(max)``, ``_S(0,2)`` (a strided shard of dim 0, split factor 2). Without
``@...`` it is replicated. ``S(0)[1],S(0)[0]`` says which mesh dim cuts first. Everything else is a
Python literal or a name of torch's, such as ``torch.bfloat16``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

import torch

from .._torch import (
    REDUCE_OPS,
    DeviceMesh,
    DTensorSpec,
    Partial,
    Placement,
    Replicate,
    Shard,
    ShardOrderEntry,
    StridedShard,
    contiguous_meta,
)
from ..errors import ShardpropError

__all__ = ["arguments"]

_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
    "c128": torch.complex128,
}

_TENSOR = re.compile(r"(?P<dtype>[a-z]+[0-9_a-z]*)\[(?P<shape>[^\]]*)\]")
_PLACEMENT = re.compile(
    r"(?:_S\(\s*(?P<strided>\d+)\s*,\s*(?P<factor>\d+)\s*\)"
    r"|S\(\s*(?P<dim>\d+)\s*\)"
    r"|P(?:\(\s*(?P<reduce>\w+)\s*\))?"
    r"|(?P<replicate>R))(?![a-z0-9(])"
    r"(?:\[(?P<turn>\d+)\])?"
)
_KEYWORD = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"|[^\s,\[\](){}]+|[(\[{].*", re.DOTALL)


def arguments(texts: Sequence[str], mesh: DeviceMesh) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments (``name=value``), tensors as specs on `mesh`.

    Raises:
        ShardpropError: what is neither a tensor nor a literal, with the place in the text; a
            positional argument after a keyword.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        keyword = _KEYWORD.fullmatch(text)
        if keyword is not None:
            if keyword["name"] in kwargs:
                raise ShardpropError(f"Expected {keyword['name']}= once, got {text!r} too.")
            kwargs[keyword["name"]] = _Reader(keyword["value"], mesh).whole()
        elif kwargs:
            raise ShardpropError(f"Expected name=value after {[*kwargs][-1]}=, got {text!r}.")
        else:
            args.append(_Reader(text, mesh).whole())
    return args, kwargs


class _Reader:
    """Reads one argument, from left to right."""

    def __init__(self, text: str, mesh: DeviceMesh) -> None:
        self._text = text
        self._mesh = mesh
        self._at = 0

    def whole(self) -> Any:
        """The argument that the whole text is."""
        if "@" not in self._text and _TENSOR.search(self._text) is None:
            return _literal(self._text)
        value = self._value()
        if self._rest():
            raise self._error("the end")
        return value

    def _value(self) -> Any:
        rest = self._rest()
        tensor = _TENSOR.match(rest)
        if tensor is not None:
            self._at += tensor.end()
            return self._tensor(tensor["dtype"], tensor["shape"])
        if rest.startswith("["):
            return self._list()
        literal = _LITERAL.match(rest)
        if literal is None:
            raise self._error("a tensor such as f32[4,8]@R or a literal")
        self._at += literal.end()
        return _literal(literal[0])

    def _list(self) -> list[Any]:
        self._at += 1
        values: list[Any] = []
        while not self._rest().startswith("]"):
            if values:
                self._take(",")
            values.append(self._value())
        self._at += 1
        return values

    def _tensor(self, dtype: str, shape: str) -> DTensorSpec:
        try:
            sizes = [int(size) for size in shape.split(",")] if shape.strip() else []
        except ValueError:
            sizes = [-1]
        if any(size < 0 for size in sizes):
            raise self._error(f"sizes such as [4,8], got [{shape}]")
        of = self._dtype(dtype)
        try:
            meta = contiguous_meta(sizes, of)
        except (RuntimeError, OverflowError, TypeError):  # as torch's versions have it
            raise self._error(f"sizes of less than 2**63 bytes in all, got [{shape}]") from None
        placements, order = self._placements(len(sizes))
        return DTensorSpec(
            self._mesh,
            tuple(placements),
            tensor_meta=meta,
            shard_order=order,  # type: ignore[arg-type]  # None: torch finds the usual one
            # As view ops make them: plain shards with gaps, not an encoded shard order.
            use_strided_shard_as_shard_order=False,
        )

    def _dtype(self, name: str) -> torch.dtype:
        found = _DTYPES.get(name) or getattr(torch, name, None)
        if not isinstance(found, torch.dtype):
            raise self._error(f"a dtype ({', '.join(_DTYPES)}, or torch's name), got {name!r}")
        return found

    def _placements(self, dims: int) -> tuple[list[Placement], tuple[ShardOrderEntry, ...] | None]:
        if not self._rest().startswith("@"):
            return [Replicate()] * self._mesh.ndim, None
        self._at += 1
        placements: list[Placement] = []
        turns: dict[int, list[tuple[int, int]]] = {}
        while len(placements) < self._mesh.ndim:
            if placements and self._rest().startswith(","):  # torch itself writes none
                self._take(",")
            found = _PLACEMENT.match(self._rest())
            if found is None:
                raise self._error(
                    f"{self._mesh.ndim} placements, one for each mesh dim, each R, S(0), P, P(max) "
                    f"or _S(0,2); after {len(placements)} of them"
                )
            placement = self._placement(found, dims)
            if found["turn"] is not None:
                if found["dim"] is None:
                    raise self._error("a turn such as [0] after S(dim) alone")
                turn = int(found["turn"]), len(placements)
                turns.setdefault(int(found["dim"]), []).append(turn)
            placements.append(placement)
            self._at += found.end()
        return placements, self._order(placements, turns)

    def _placement(self, found: re.Match[str], dims: int) -> Placement:
        dim = found["dim"] or found["strided"]
        if dim is not None and int(dim) >= dims:
            raise self._error(
                f"a placement on one of the {dims} dims of the tensor, got {found[0]}"
            )
        if found["strided"] is not None:
            if int(found["factor"]) < 1:
                raise self._error(f"a split factor of 1 and more, got {found[0]}")
            return StridedShard(int(found["strided"]), split_factor=int(found["factor"]))
        if found["dim"] is not None:
            return Shard(int(found["dim"]))
        if found["replicate"] is not None:
            return Replicate()
        reduce_op = found["reduce"] or "sum"
        if reduce_op not in REDUCE_OPS:
            raise self._error(f"P({'), P('.join(REDUCE_OPS)}), got {found[0]}")
        return Partial(reduce_op)

    def _order(
        self, placements: Sequence[Placement], turns: dict[int, list[tuple[int, int]]]
    ) -> tuple[ShardOrderEntry, ...] | None:
        """torch's shard order, where turns are written; None: mesh dims cut from left to right."""
        if not turns:
            return None
        cut: dict[int, list[int]] = {}
        for mesh_dim, placement in enumerate(placements):
            if isinstance(placement, Shard):
                cut.setdefault(placement.dim, []).append(mesh_dim)
        for dim, given in turns.items():
            if sorted(turn for turn, _ in given) != [*range(len(cut[dim]))]:
                raise self._error(f"turns 0 to {len(cut[dim]) - 1} on each S({dim}), each once")
            cut[dim] = [mesh_dim for _, mesh_dim in sorted(given)]
        return tuple(ShardOrderEntry(dim, tuple(by)) for dim, by in sorted(cut.items()))

    def _rest(self) -> str:
        rest = self._text[self._at :]
        left = rest.lstrip()
        self._at += len(rest) - len(left)
        return left

    def _take(self, sign: str) -> None:
        if not self._rest().startswith(sign):
            raise self._error(repr(sign))
        self._at += len(sign)

    def _error(self, expected: str) -> ShardpropError:
        left = self._text[self._at :]
        got = "" if ", got " in expected else f", got {left!r}" if left else ", got the end of it"
        return ShardpropError(f"argument {self._text!r}: Expected {expected}{got}.")


def _literal(text: str) -> Any:
    text = text.strip()
    if text.startswith("torch."):
        value = getattr(torch, text.removeprefix("torch."), None)
        if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return value
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ShardpropError(
            f"argument {text!r}: Expected a tensor such as f32[512,1024]@S(0),R, a Python literal "
            "(quotes around a text, too) or a name such as torch.bfloat16."
        ) from None

"""What the JSON files of problems hold: our own, and those of the published benchmark format."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from ...support.json_document import Expected, Finite, Index, Part, Text

__all__ = [
    "AllowPart",
    "EqualPart",
    "InstanceFile",
    "InstanceNode",
    "PairsPart",
    "ProblemFile",
    "RowPart",
]


class _NodePart(Part):
    name: Text
    labels: tuple[str, ...] | None = None


class AllowPart(Part):
    kind: Literal["allow", "forbid"]
    name: Text
    node: Index
    labels: tuple[Index, ...]


class PairsPart(Part):
    kind: Literal["allow_pairs"]
    name: Text
    u: Index
    v: Index
    pairs: tuple[tuple[Index, Index], ...]


class EqualPart(Part):
    kind: Literal["equal"]
    name: Text
    nodes: tuple[Index, ...]


class RowPart(Part):
    kind: Literal["row"]
    name: Text
    lo: Finite | None = None  # JSON has no infinity
    hi: Finite | None = None
    nodes: tuple[Index, ...]
    labels: tuple[Index, ...]
    coefficients: tuple[Finite, ...]


class ProblemFile(Part):
    """Beside it are the arrays: costs, prices, edges."""

    format: Annotated[Literal["shardprop graph problem"], Expected("'shardprop graph problem'")]
    version: Annotated[Literal[1], Expected("version 1")]
    nodes: tuple[_NodePart, ...]
    edges: tuple[str, ...]
    constraints: tuple[
        Annotated[AllowPart | PairsPart | EqualPart | RowPart, Field(discriminator="kind")], ...
    ]


# --- the benchmark format -----------------------------------------------------------------------


class _InstancePart(Part):
    """Has keys, too, that a problem has no use for."""

    model_config = ConfigDict(extra="ignore")


class InstanceNode(_InstancePart):
    idx: Index
    name: Text
    mult: Finite
    nargs: Index
    out: tuple[str, ...]


class _MemoryRow(_InstancePart):
    rhs: Finite
    terms: tuple[tuple[Index, Index, Finite], ...]


class InstanceFile(_InstancePart):
    """See instances.py."""

    nodes: tuple[InstanceNode, ...]
    flow: tuple[tuple[Index, Index, tuple[Index, ...]], ...]
    paired: tuple[tuple[Index, Index, tuple[tuple[Index, Index], ...]], ...]
    disabled: tuple[tuple[Index, Index], ...]
    user: tuple[tuple[Index, Index, tuple[Index, ...], str], ...]
    linked: dict[int, Index]
    memory: dict[str, _MemoryRow]

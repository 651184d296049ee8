"""The plans of a trace as HTML cards: who uses each plan, what it costs, and its picture."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import Any

from ..._torch import Partial, Placement, Replicate, Shard, StridedShard
from ...model.plan_steps import Layout, Step
from ...support.console import counted
from ..words import bytes_text, mesh_text, us_text
from .names import Places, short
from .plan_picture import draw_steps, passed_through

__all__ = ["plan_cards"]

_MOST_USERS = 4

Json = dict[str, Any]


def plan_cards(trace: Json, places: Places) -> str:
    """A card for each distinct plan, those that cost most in all first, as HTML.

    Args:
        trace: Of the schema ``shardprop/trace/1``.
        places: Its places.
    """
    groups: dict[str, list[Json]] = {}
    for each in trace["redistributions"]:
        if each["steps"]:
            steps = [(step["kind"], step["mesh_dims"]) for step in each["steps"]]
            key = (each["mesh"], each["shape"], each["dtype"], each["text"], steps)
            groups.setdefault(repr(key), []).append(each)
    ordered = sorted(groups.values(), key=lambda group: -_times(group) * group[0]["us"])
    return "\n".join("".join(_card(trace, places, group)) for group in ordered)


def _times(group: Sequence[Json]) -> int:
    return sum(int(each["count"]) for each in group)


def _card(trace: Json, places: Places, group: Sequence[Json]) -> Iterator[str]:
    first = group[0]
    mesh = trace["meshes"][first["mesh"]]
    users = list(dict.fromkeys(_user(places, each) for each in group))
    if len(users) > _MOST_USERS:
        users = [*users[:_MOST_USERS], f"{len(users) - _MOST_USERS} more"]
    tensor = f"{first['dtype']} {first['shape']} on {mesh_text(mesh['dim_names'], mesh['shape'])}"
    costs = (
        f"{us_text(first['us'])} each, {counted(_times(group), 'time')}, "
        f"{bytes_text(first['wire_bytes'])} sent by a rank"
    )
    yield f'<article class="plan"><h3 class="mono">{html.escape(short(first["text"]))}'
    yield f"<span>{html.escape(tensor)}</span></h3>"
    yield f"<p>{costs}</p><p>{html.escape(' · '.join(users))}</p>"
    steps = [step for step in map(_step, first["steps"]) if step is not None]
    shape = first["shape"]
    are_sizes = isinstance(shape, list) and all(isinstance(size, int) for size in shape)
    if len(steps) < len(first["steps"]) or not are_sizes:  # other placements, or expressions
        yield "<p>its layouts cannot be drawn</p>"
    else:
        subjects = passed_through(steps, shape, mesh["shape"], mesh["dim_names"])
        yield f'<div class="scroll">{draw_steps(subjects, steps).svg}</div>'
    yield "</article>"


def _user(places: Places, redistribution: Json) -> str:
    op = redistribution["op"]
    what = f"{op}, operand {redistribution['operand']}" if op else "redistribute()"
    where = places.where(redistribution["place"])
    return f"{what} ({where})" if where else what


def _step(given: Json) -> Step | None:
    """The step of a plan; None where a placement is of another kind than can be drawn."""
    before, after = _layout(given["before"]), _layout(given["after"])
    if before is None or after is None:
        return None
    return Step(
        given["kind"],
        tuple(given["mesh_dims"]),
        before,
        after,
        given["comm_us"],
        given["local_us"],
        given["wire_bytes"],
        given["peak_bytes"],
    )


def _layout(layout: Json) -> Layout | None:
    placements = [_placement(each) for each in layout["placements"]]
    known = tuple(each for each in placements if each is not None)
    order = tuple((dim, tuple(mesh_dims)) for dim, mesh_dims in layout["shard_order"])
    return Layout(known, order) if len(known) == len(placements) else None


def _placement(given: Json) -> Placement | None:
    kind = given["kind"]
    if kind == "replicate":
        return Replicate()
    if kind == "partial":
        return Partial(given["reduce"])
    if kind == "shard":
        return Shard(given["dim"])
    if kind == "strided_shard" and isinstance(given["split_factor"], int):
        return StridedShard(given["dim"], split_factor=given["split_factor"])
    return None

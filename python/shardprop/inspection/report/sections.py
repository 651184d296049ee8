"""What the script of the page shows, section by section, from the JSON document of a trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...cost.cost_model import COLLECTIVES
from ...support.console import counted
from ..words import bytes_text, mesh_text, over_text, us_text
from .names import Places, short

__all__ = ["sections"]

_MOST = 10
_MOST_BARS = 20_000


def sections(trace: dict[str, Any], places: Places) -> dict[str, Any]:
    """What the script of the page reads; each part is that of one section.

    Args:
        trace: Of the schema ``shardprop/trace/1``.
        places: Its places.
    """
    return {
        "about": _about(trace),
        "footer": _footer(trace["versions"]),
        "summary": _summary(trace),
        "most_expensive": _most_expensive(trace, places),
        "timeline": _timeline(trace, places),
        "decisions": list(_decisions(trace, places)),
        "fallbacks": _fallbacks(trace),
        "corrections": list(_corrections(trace, places)),
    }


def _footer(versions: dict[str, str]) -> str:
    made_by = f"shardprop {versions['shardprop']}, torch {versions['torch']}"
    return f"{made_by}. Modelled times are those of the policy's cost model, not measured."


def _about(trace: dict[str, Any]) -> str:
    meshes = [_mesh(mesh) for mesh in trace["meshes"]]
    parts = [f"on {mesh}" for mesh in meshes[:3]]
    if len(meshes) > 3:
        parts.append(f"{len(meshes) - 3} more meshes")
    parts += [f"policy {policy}" for policy in trace["summary"]["policies"]]
    return " · ".join([*parts, f"traced for {us_text(trace['summary']['wall_seconds'] * 1e6)}"])


def _summary(trace: dict[str, Any]) -> list[list[str]]:
    """Per figure its value, its name, and what more there is to say."""
    summary = trace["summary"]
    asked = summary["hits"] + summary["misses"]
    share = f"{100 * summary['hits'] / asked:.0f} % of {asked:,}" if asked else "nothing was asked"
    deciders = summary["deciders"]
    redistributions = summary["implicit"] + summary["explicit"]
    implicit = [each for each in trace["redistributions"] if not each["explicit"]]
    implicit_us = sum(each["count"] * each["us"] for each in implicit)
    figures = [
        [
            us_text(summary["us"]),
            "modelled communication",
            f"{counted(summary['collectives'], 'collective')}, {us_text(implicit_us)} implicit",
        ],
        [bytes_text(summary["wire_bytes"]), "sent by a rank", ""],
        [
            f"{redistributions:,}",
            "redistributions",
            f"{summary['implicit']:,} implicit, {summary['explicit']:,} asked for",
        ],
        [
            f"{summary['decisions']:,}",
            "decisions",
            ", ".join(f"{count:,} by {name}" for name, count in deciders.items() if count),
        ],
        [us_text(summary["propagation_seconds"] * 1e6), "deciding", "on the host"],
        [f"{summary['hits']:,}", "answered by torch's cache", share],
    ]
    if summary["errors"]:
        figures.append([f"{summary['errors']:,}", "without an answer", ""])
    if summary["dropped"]:
        figures.append([f"{summary['dropped']:,}", "events past the limit", "counted, not shown"])
    return figures


def _most_expensive(trace: dict[str, Any], places: Places) -> list[dict[str, Any]]:
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for each in trace["redistributions"]:
        if each["explicit"] or not each["collectives"]:
            continue
        where, module = places.where(each["place"]), places.module(each["place"])
        text = short(each["text"])
        key = (each["op"], each["operand"], text, where, module)
        row = found.setdefault(
            key,
            {
                "op": each["op"] or "redistribute()",
                "operand": each["operand"] or "",
                "text": text,
                "kinds": ", ".join(_over(trace, each, step) for step in _collectives(each)),
                "where": where or "unknown line",
                "module": module,
                "count": 0,
                "bytes": 0,
                "us": 0.0,
            },
        )
        row["count"] += each["count"]
        row["bytes"] += each["count"] * each["wire_bytes"]
        row["us"] += each["count"] * each["us"]
    return sorted(found.values(), key=lambda row: -row["us"])[:_MOST]


def _collectives(redistribution: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in redistribution["steps"] if step["kind"] in COLLECTIVES]


def _over(trace: dict[str, Any], redistribution: dict[str, Any], step: dict[str, Any]) -> str:
    names = trace["meshes"][redistribution["mesh"]]["dim_names"]
    return f"{step['kind']} over {over_text(names, step['mesh_dims'])}"


def _mesh(mesh: dict[str, Any]) -> str:
    return mesh_text(mesh["dim_names"], mesh["shape"])


def _timeline(trace: dict[str, Any], places: Places) -> dict[str, Any]:
    """Bars as [event, kind, lanes, us, bytes] in program order; one lane for each mesh dim."""
    meshes = trace["meshes"]
    lanes = {
        (number, mesh_dim): over_text(mesh["dim_names"], [mesh_dim])
        + (f" ({_mesh(mesh)})" if len(meshes) > 1 else "")
        for number, mesh in enumerate(meshes)
        for mesh_dim, size in enumerate(mesh["shape"])
        if size > 1
    }
    number_of = {lane: number for number, lane in enumerate(lanes)}
    kinds = sorted(COLLECTIVES)
    bars: list[list[Any]] = []
    dropped = 0
    for event, *_ in trace["timeline"]:
        redistribution = trace["redistributions"][event]
        for step in _collectives(redistribution):
            of = [number_of.get((redistribution["mesh"], dim)) for dim in step["mesh_dims"]]
            drawn = [lane for lane in of if lane is not None]
            if len(bars) < _MOST_BARS:
                us, sent = round(step["comm_us"], 3), step["wire_bytes"]
                bars.append([event, kinds.index(step["kind"]), drawn, us, sent])
            else:
                dropped += 1
    events = [
        {
            "op": each["op"],
            "operand": each["operand"],
            "module": places.module(each["place"]),
            "where": places.where(each["place"]),
            "text": short(each["text"]),
            "explicit": each["explicit"],
        }
        for each in trace["redistributions"]
    ]
    names = list(lanes.values())
    return {"kinds": kinds, "events": events, "lanes": names, "bars": bars, "dropped": dropped}


def _decisions(trace: dict[str, Any], places: Places) -> Iterator[dict[str, Any]]:
    """By module and op, and within these by who decided."""
    deciders: dict[tuple[object, ...], dict[tuple[str, str], dict[str, Any]]] = {}
    where: dict[tuple[object, ...], str] = {}
    for each in [*trace["decisions"], *trace["redistributions"]]:
        place = trace["places"][each["place"]]
        key = (place["module"], each["op"] or "redistribute", place["backward"])
        if not where.get(key):
            where[key] = places.where(each["place"])
        if "decider" in each:
            reason = each["reason"] or each["error"] or ""
            of = deciders.setdefault(key, {}).setdefault(
                (each["decider"], reason), {"count": 0, "seconds": 0.0}
            )
            of["count"] += 1
            of["seconds"] += each["seconds"]
    for row in trace["modules"]:
        key = (row["module"], row["op"], row["backward"])
        nobody = "program" if row["op"] == "redistribute" else "cache"
        found = deciders.get(key) or {(nobody, ""): {"count": 0, "seconds": 0.0}}
        moves = {"moved": row["redistributions"], "bytes": row["wire_bytes"], "us": row["us"]}
        for (decider, reason), counts in found.items():
            yield {
                "module": row["module"],
                "op": row["op"],
                "backward": row["backward"],
                "where": where.get(key, ""),
                "decider": decider,
                "reason": reason,
                **counts,
                **moves,
            }
            # What was moved is counted once.
            moves = {"moved": 0, "bytes": 0, "us": 0.0}


def _corrections(trace: dict[str, Any], places: Places) -> Iterator[dict[str, Any]]:
    """Where a fault of torch's was put right; a trace of an earlier shardprop does not say."""
    for each in trace.get("corrections", ()):
        operands = [f"{x['name']} {short(x['layout']['text'])}" for x in each["operands"]]
        yield {
            "op": each["op"],
            "operands": ", ".join(operands).strip(),
            "correction": each["correction"],
            "where": places.where(each["place"]) or "unknown line",
            "module": places.module(each["place"]),
            "count": each["count"],
        }


def _fallbacks(trace: dict[str, Any]) -> list[dict[str, Any]]:
    """What the core did not decide, what nobody could, and what has no price."""
    counts: Counter[tuple[str, str, str]] = Counter()
    seconds: Counter[tuple[str, str, str]] = Counter()
    for each in trace["decisions"]:
        if each["decider"] == "core" and not each["error"]:
            continue
        decider = "nobody: an error" if each["error"] else _DECIDERS[each["decider"]]
        key = (each["op"], decider, each["error"] or each["reason"] or "")
        counts[key] += 1
        seconds[key] += each["seconds"]
    for each in trace["redistributions"]:
        if not each["has_plan"]:
            counts[(each["op"] or "redistribute()", "no plan to show", each["note"])] += each[
                "count"
            ]
    return [
        {
            "op": op,
            "decider": decider,
            "reason": short(reason),
            "count": count,
            "seconds": seconds[(op, decider, reason)],
        }
        for (op, decider, reason), count in counts.most_common()
    ]


_DECIDERS = {"torch": "torch (no rule)", "fallback": "torch (declined)", "core": "core"}

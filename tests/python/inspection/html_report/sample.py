"""A trace's document made by hand: what a small program, or a large one, would leave."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'{data}\u2028"


def ranks_of(shape: Sequence[int], first: int = 0) -> list[Any]:
    if len(shape) == 1:
        return list(range(first, first + shape[0]))
    step = 1
    for size in shape[1:]:
        step *= size
    return [ranks_of(shape[1:], first + index * step) for index in range(shape[0])]


def placement(text: str) -> dict[str, Any]:
    if text == "R":
        return {"kind": "replicate", "text": text}
    if text.startswith("S("):
        return {"kind": "shard", "text": text, "dim": int(text[2:-1])}
    if text.startswith("_S("):
        dim, factor = map(int, text[3:-1].split(","))
        return {"kind": "strided_shard", "text": text, "dim": dim, "split_factor": factor}
    if text.startswith("P("):
        return {"kind": "partial", "text": text, "reduce": text[2:-1]}
    return {"kind": "other", "text": text}


def layout(*texts: str) -> dict[str, Any]:
    placements = [placement(text) for text in texts]
    order: dict[int, list[int]] = {}
    for mesh_dim, each in enumerate(placements):
        if "dim" in each:
            order.setdefault(each["dim"], []).append(mesh_dim)
    return {
        "text": "".join(texts),
        "placements": placements,
        "shard_order": [[dim, mesh_dims] for dim, mesh_dims in sorted(order.items())],
    }


def step(
    kind: str, mesh_dims: list[int], before: Any, after: Any, us: float = 12.5, sent: int = 4096
) -> dict[str, Any]:
    local = kind in ("chunk", "partition", "zero_fill")
    return {
        "kind": kind,
        "mesh_dims": mesh_dims,
        "us": us,
        "comm_us": 0.0 if local else us,
        "local_us": us if local else 0.0,
        "wire_bytes": sent,
        "peak_bytes": 2 * sent,
        "before": before,
        "after": after,
    }


def redistribution(
    steps: list[dict[str, Any]],
    *,
    op: str | None = "aten.mm.default",
    operand: str | None = "mat2",
    place: int = 0,
    shape: list[Any] | None = None,
    count: int = 1,
    mesh: int = 0,
) -> dict[str, Any]:
    collectives = sum(each["comm_us"] > 0 for each in steps)
    return {
        "op": op,
        "operand": operand,
        "explicit": op is None,
        "policy": "torch",
        "place": place,
        "mesh": mesh,
        "shape": [64, 64] if shape is None else shape,
        "dtype": "float32",
        "src": steps[0]["before"] if steps else layout("R", "R"),
        "dst": steps[-1]["after"] if steps else layout("R", "R"),
        "text": "->".join(
            [each["before"]["text"] for each in steps[:1]]
            + [each["after"]["text"] for each in steps]
        ),
        "count": count,
        "us": sum(each["us"] for each in steps),
        "wire_bytes": sum(each["wire_bytes"] for each in steps),
        "collectives": collectives,
        "host_seconds": 0.001,
        "has_plan": bool(steps),
        "note": "" if steps else f"no price: {HOSTILE}",
        "steps": steps,
    }


def decision(
    op: str, place: int, decider: str = "core", reason: str | None = None, error: str | None = None
) -> dict[str, Any]:
    tensor = {"shape": [64, 64], "dtype": "float32", "layout": layout("S(0)", "R")}
    return {
        "op": op,
        "at": 0.1,
        "seconds": 0.0005,
        "decider": decider,
        "reason": reason,
        "error": error,
        "place": place,
        "thread": 0,
        "mesh": 0,
        "operands": [{"name": "self", **tensor}],
        "outputs": [tensor, None],
        "redistributes": False,
    }


def place(module: str, line: int, backward: bool = False) -> dict[str, Any]:
    return {
        "module": module,
        "file": "/home/someone/project/model.py" if line else "",
        "line": line,
        "function": "Model.forward" if line else "",
        "backward": backward,
    }


def trace_of(
    meshes: list[tuple[Sequence[int], Sequence[str]]],
    places: list[dict[str, Any]],
    decisions: list[dict[str, Any]],
    redistributions: list[dict[str, Any]],
    timeline: Sequence[int],
) -> dict[str, Any]:
    """The document, its summary and its table by module counted from the rest."""
    deciders = {name: 0 for name in ("core", "torch", "fallback")}
    rows: dict[tuple[str, str, bool], dict[str, Any]] = {}

    def row(place: int, op: str | None) -> dict[str, Any]:
        at = places[place]
        key = (at["module"], op or "redistribute", at["backward"])
        names = ("decisions", "decision_seconds", "redistributions", "collectives", "wire_bytes")
        new = dict(zip(("module", "op", "backward"), key, strict=True))
        return rows.setdefault(key, new | dict.fromkeys(names, 0) | {"us": 0.0})

    for each in decisions:
        deciders[each["decider"]] += 1
        found = row(each["place"], each["op"])
        found["decisions"] += 1
        found["decision_seconds"] += each["seconds"]
    for each in redistributions:
        found = row(each["place"], each["op"])
        found["redistributions"] += each["count"]
        for name in ("collectives", "wire_bytes", "us"):
            found[name] += each["count"] * each[name]

    def total(name: str) -> Any:
        return sum(each["count"] * each[name] for each in redistributions)

    return {
        "schema": "shardprop/trace/1",
        "versions": {"shardprop": "0.1.0", "torch": "2.13.0"},
        "summary": {
            "wall_seconds": 1.25,
            "propagation_seconds": 0.2,
            "hits": 300,
            "misses": len(decisions),
            "dropped": 0,
            "decisions": len(decisions),
            "deciders": deciders,
            "delegated": {},
            "fallbacks": {},
            "errors": sum(each["error"] is not None for each in decisions),
            "policies": ["torch"],
            "implicit": sum(each["count"] for each in redistributions if not each["explicit"]),
            "explicit": sum(each["count"] for each in redistributions if each["explicit"]),
            "unpriced": sum(each["count"] for each in redistributions if not each["has_plan"]),
            "collectives": total("collectives"),
            "wire_bytes": total("wire_bytes"),
            "us": total("us"),
        },
        "meshes": [
            {
                "shape": list(shape),
                "dim_names": list(names),
                "device_type": "cpu",
                "ranks": ranks_of(shape),
            }
            for shape, names in meshes
        ],
        "places": places,
        "threads": 1,
        "modules": list(rows.values()),
        "decisions": decisions,
        "redistributions": redistributions,
        "timeline": [[index, 0.001 * at, 0.0001, 0] for at, index in enumerate(timeline)],
    }


def small() -> dict[str, Any]:
    """All that a page can show, once; with names that would like to be markup."""
    sharded, whole = layout("S(0)", "R"), layout("R", "R")
    pending, turned = layout("S(0)", "P(sum)"), layout("S(1)", "R")
    places = [
        place("Model.layers.0", 10),
        place(f"Model.{HOSTILE}", 20),
        place("Model.layers.0", 10, backward=True),
        place("", 0),
    ]
    both = [
        step("all_reduce", [1], pending, sharded, 30.0),
        step("all_to_all", [0], sharded, turned, 20.0),
    ]
    redistributions = [
        redistribution([step("all_gather", [0], sharded, whole)], count=3),
        redistribution(both, place=1, op="aten.bmm.default", operand=HOSTILE),
        redistribution([step("chunk", [0], whole, sharded, 0.0, 0)], op=None, operand=None),
        redistribution([], place=3, op="aten.embedding.default"),
        redistribution(
            [step("all_gather", [0], layout("S(0)"), layout("R"), 7.0)], shape=[7], mesh=1, place=2
        ),
        redistribution([step("all_gather", [0], sharded, whole)], shape=["s0", 4], place=2),
        redistribution([step("all_reduce", [0], layout("Q", "R"), whole)], place=2),
    ]
    decisions = [
        decision("aten.mm.default", 0),
        decision("aten.mm.default", 0),
        decision("aten.mm.default", 0, "fallback", "sizes that are expressions"),
        decision("aten.bmm.default", 1),
        decision("aten.sort.default", 3, "torch", f"no rule {HOSTILE}"),
        decision("aten.add_.Tensor", 2, "core", None, "in-place: cannot change its placement"),
    ]
    meshes: list[tuple[Sequence[int], Sequence[str]]] = [((2, 2), ("dp", "tp")), ((3,), ("0",))]
    return trace_of(meshes, places, decisions, redistributions, [0, 1, 0, 2, 3, 4, 0, 5, 6])


def large(bars: int = 6000) -> dict[str, Any]:
    """A step of a deep model on 1,024 ranks, every layer with plans of its own shape."""
    names = ("pp", "dp", "tp")
    kinds = ["all_gather", "reduce_scatter", "all_reduce"]
    start, cut, whole = layout("R", "S(0)", "S(0)"), layout("R", "S(0)", "R"), layout("R", "R", "R")
    places = [
        place(f"Transformer.layers.{layer}.{part}", 10 + layer)
        for layer, part in itertools.product(range(48), ("attention.wq", "feed_forward.w1"))
    ]
    redistributions = [
        redistribution(
            [
                step(kinds[index % 3], [2], start, cut, 10.0 + index, 1 << 20),
                step("all_gather", [1], cut, whole, 20.0, 1 << 21),
            ],
            place=index,
            shape=[4096, 1024 + index],
            count=bars // 2 // len(places),
        )
        for index in range(len(places))
    ]
    decisions = [
        decision(f"aten.op{number}.default", at)
        for at, number in itertools.product(range(len(places)), range(12))
    ]
    timeline = [index % len(places) for index in range(bars // 2)]
    return trace_of([((4, 32, 8), names)], places, decisions, redistributions, timeline)

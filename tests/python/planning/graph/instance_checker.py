"""Whether labels of an instance meet its constraints and what they cost, from the raw files.

Written from the description of the format alone: `Problem` and its loader have no part in it.
"""

from __future__ import annotations

import atexit
import json
import lzma
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
_PACKED = _ROOT / "tests" / "data" / "graph"
# Instances whose arrays are those of another.
_ARRAYS_OF = {"llama_1layer_8x8_memory": "llama_1layer_8x8"}


@cache
def _folder() -> Path:
    """Of the unpacked files; it goes when the process ends."""
    folder = tempfile.mkdtemp(prefix="shardprop-instances-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


@cache
def instance(name: str) -> Path:
    """The path, without an ending, of an instance's JSON and NPZ files."""
    path = _folder() / name
    for kind, packed in ((".json", name), (".npz", _ARRAYS_OF.get(name, name))):
        data = lzma.decompress((_PACKED / f"{packed}{kind}.xz").read_bytes())
        path.with_suffix(kind).write_bytes(data)
    return path


class Checker:
    """One instance; labels are by ``idx``."""

    def __init__(self, name: str) -> None:
        self.data: dict[str, Any] = json.loads(instance(name).with_suffix(".json").read_text())
        self.arrays = np.load(instance(name).with_suffix(".npz"))
        self.names = {node["name"]: node["idx"] for node in self.data["nodes"]}

    def cost(self, labels: dict[int, int]) -> float:
        flow = {(consumer, arg): producers for consumer, arg, producers in self.data["flow"]}
        total = 0.0
        for node in self.data["nodes"]:
            idx, label = node["idx"], labels[node["idx"]]
            cost = float(self.arrays[f"comp_{idx}"][label])
            for arg in range(node["nargs"]):
                moves = [float(value) for value in self._moves(idx, arg)[label]]
                if (idx, arg) in flow:
                    cost += moves[self._label(labels, flow[idx, arg][0])]
                else:
                    cost += min(moves)
            total += node["mult"] * cost
        return total

    def broken(self, labels: dict[int, int]) -> list[str]:
        """What is not met."""
        wrong = []
        for node in self.data["nodes"]:
            if not 0 <= labels[node["idx"]] < node["nlabels"]:
                wrong.append(f"label of {node['name']}")
        for consumer, arg, producers in self.data["flow"]:
            if len({self._label(labels, producer) for producer in producers}) != 1:
                wrong.append(f"producers of {consumer}, {arg}")
        for a, b, pairs in self.data["paired"]:
            if [self._label(labels, a), self._label(labels, b)] not in pairs:
                wrong.append(f"pair {a}, {b}")
        for node, label in self.data["disabled"]:
            if self._label(labels, node) == label:
                wrong.append(f"disabled {node}")
        for node, _, allowed, name in self.data["user"]:
            if self._label(labels, node) not in allowed:
                wrong.append(name)
        for name, row in self.data["memory"].items():
            terms = row["terms"]
            total = sum(factor for idx, label, factor in terms if self._label(labels, idx) == label)
            if (
                (total > row["rhs"] + 1e-9)
                if name.endswith("_high")
                else (total < row["rhs"] - 1e-9)
            ):
                wrong.append(f"{name}: {total}")
        return wrong

    def _label(self, labels: dict[int, int], idx: int) -> int:
        return labels[self.data["linked"].get(str(idx), idx)]

    def _moves(self, idx: int, arg: int) -> Any:
        comm = self.arrays[f"comm_{idx}_{arg}"].astype(float)
        return comm + self.arrays[f"trans_{idx}_{arg}"].astype(float)

"""The stub of the compiled core says what the core has: names, signatures, enums."""

from __future__ import annotations

import pytest

from shardprop import _core

from ..checkout import ROOT
from .stubs import faults

STUB = (ROOT / "python" / "shardprop" / "_core.pyi").read_text()


def test_the_stub_says_what_the_core_has() -> None:
    assert faults(STUB, _core) == []


# What is changed in the stub, what it becomes, and the beginning of the fault.
CHANGES = {
    "a parameter renamed": (
        "def exact_plan(\n    model: CostModel, src",
        "def exact_plan(\n    model: CostModel, source",
        "exact_plan:",
    ),
    "a parameter added": (
        "def region(problem: Problem)",
        "def region(problem: Problem, limit: int)",
        "region:",
    ),
    "a parameter removed": (
        "def signature(\n    args: tuple[Any, ...], kwargs",
        "def signature(\n    kwargs",
        "signature:",
    ),
    "parameters reordered": (
        "src: object, dst: object, force_graph: bool\n) -> float",
        "dst: object, src: object, force_graph: bool\n) -> float",
        "price_steps:",
    ),
    "a default removed": ("by_address: bool = False", "by_address: bool", "spec_key:"),
    "a default added": ("hashes: Sequence[int]", "hashes: Sequence[int] = ...", "set_order:"),
    "keyword-only no more": ("    *,\n    time_limit", "    time_limit", "solve_graph:"),
    "another type": (
        "hash_int_pair(first: int",
        "hash_int_pair(first: str",
        "hash_int_pair, first:",
    ),
    "returns None": (
        "def build_config() -> dict[str, Any]",
        "def build_config() -> None",
        "build_config:",
    ),
    "returns something": (
        "compensated_sum: bool,\n) -> None",
        "compensated_sum: bool,\n) -> int",
        "configure:",
    ),
    "a function removed": (
        "def set_order(hashes: Sequence[int]) -> list[int]: ...\n",
        "",
        "set_order: missing",
    ),
    "a function added": (
        "def build_config",
        "def build() -> int: ...\ndef build_config",
        "build: in the stub only",
    ),
    "a constructor's parameter renamed": (
        "coordinate: Sequence[int] | None",
        "place: Sequence[int] | None",
        "Mesh.__init__:",
    ),
    "a constructor removed": (
        "class History:\n    def __init__(self) -> None: ...\n",
        "class History:\n",
        "History.__init__: missing",
    ),
    "a method's parameter renamed": (
        "contains(self, specs",
        "contains(self, operands",
        "Region.contains:",
    ),
    "a method removed": (
        "    def contains(self, specs: Sequence[object]) -> bool: ...\n",
        "",
        "Region.contains: missing",
    ),
    "a property renamed": ("def proved(self)", "def is_proved(self)", "GraphAnswer.is_proved: in"),
    "a property of another type": (
        "def iterations(self) -> int",
        "def iterations(self) -> bool",
        "GraphAnswer.iterations:",
    ),
    "a property that is a method": (
        "    @property\n    def member(self)",
        "    def member(self)",
        "Mesh.member: a property",
    ),
    "a member's value": ("    TOO_LARGE = 4", "    TOO_LARGE = 5", "Verdict:"),
    "a member removed": ("    ASK_KINDS = 64\n", "", "Option:"),
    "another kind of enum": ("class Option(IntFlag)", "class Option(IntEnum)", "Option:"),
    "another base": ("class RuleError(ValueError)", "class RuleError(TypeError)", "RuleError:"),
    "a value of another type": ("STEPS: tuple[str, ...]", "STEPS: list[str]", "STEPS:"),
    "a value removed": ("REDUCE_OPS: tuple[str, ...]\n", "", "REDUCE_OPS: missing"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_stub_that_is_wrong_is_found_out(change: str) -> None:
    before, after, fault = CHANGES[change]
    assert STUB.count(before) == 1, "the change must be one change"
    found = faults(STUB.replace(before, after), _core)
    assert any(each.startswith(fault) for each in found), found

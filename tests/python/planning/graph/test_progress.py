"""How a solve tells how far it is."""

from __future__ import annotations

import math
from typing import Any

import pytest

from shardprop.planning.graph import Problem, solve
from shardprop.planning.graph.progress import line

from .fake_core import core_answer


def _one_node() -> Problem:
    problem = Problem()
    problem.add_node("a", [3.0, 1.0])
    return problem


def _reports(problem: Any, limit: float, gap: float, state: Any, progress: Any) -> Any:
    """A core that reports once."""
    if progress is not None:
        progress(0.5, 3, -1.0, math.inf)
    return core_answer([1], 1.0, 1.0, proved=True)


def test_a_function_gets_what_the_solver_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _reports)
    seen: list[tuple[float, int, float, float]] = []
    solve(_one_node(), progress=lambda *state: seen.append(state))
    assert seen == [(0.5, 3, -1.0, math.inf)]


def test_an_error_of_the_function_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _reports)

    def fails(*_: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        solve(_one_node(), progress=fails)


def test_the_display_leaves_stdout_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shardprop.planning.graph.solving.solve_core", _reports)
    assert solve(_one_node(), progress=True).objective == 1.0
    assert capsys.readouterr().out == ""


def test_the_line_says_what_is_known() -> None:
    assert line(0.5, 3, -math.inf, math.inf) == (
        "solving: 0.5 s, iteration 3, bound -inf, no labels yet, no gap yet"
    )
    assert line(12.0, 40, 99.0, 100.0) == (
        "solving: 12.0 s, iteration 40, bound 99, best 100, gap 1.00e-02"
    )

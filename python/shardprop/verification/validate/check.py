"""An op's rule put to the test: what it claims and is wrong, what holds and is not claimed."""

from __future__ import annotations

import functools
import itertools
import math
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from ..._torch import OpOverload
from ...rules.rule import RuleKind
from ..calls.call import Call
from ..crash_isolation import Lost, apart, last_apart
from ..settings import Settings
from ..simulator.candidates import Combinations
from ..simulator.execution import Executable
from ..simulator.partials import Untestable
from ..simulator.simulation import (
    Data,
    Raised,
    Row,
    Simulation,
    is_mixed,
    simulations,
    telling,
    varied,
)
from ..texts import call_text, error_text, row_text
from .claimed_rows import Claimant, is_torchs_fill, kind_of_rule
from .gradients import Ran, check_gradients
from .missing_rows import Tried, look_for_missing
from .repro import smallest_script
from .results import Finding, OpReport
from .shrink import Witness

__all__ = ["check_op"]

_FILLED = "a fill of what is pending, which torch's own tests have stay pending"
# What a pair of sound rows gives depends little on the call.
_OFTEN_ENOUGH = 2


def check_op(
    op: OpOverload,
    calls: Iterable[Call],
    settings: Settings | None = None,
    deadline: float = math.inf,
) -> OpReport:
    """Put the rule of an op to the test on calls of it.

    Args:
        op: The op overload.
        calls: Calls of it.
        settings: What is tried.
        deadline: The time, as of ``time.monotonic``, after which no further call is begun, and no
            further row looked for.
    """
    settings = settings or Settings()
    report = OpReport(str(op), kind_of_rule(op, settings.rule))
    start = time.monotonic()
    checker = _Checker(report, settings, deadline)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # a resized out= tensor, a deprecated op
        for call in calls:
            if time.monotonic() > deadline:
                report.error = "time limit"
                break
            checker.check(call)
        checker.finish()
    report.seconds = round(time.monotonic() - start, 3)
    return report


class _Checker:
    def __init__(self, report: OpReport, settings: Settings, deadline: float) -> None:
        self._deadline = deadline
        # Half of the time for what the rule claims; the calls are carried out, too.
        now = time.monotonic()
        self._deadline_of_claims = now + (deadline - now) / 2 if settings.gradients else deadline
        self._report = report
        self._settings = settings
        self._skipped: Counter[str] = Counter()
        self._claimed: set[Row] = set()
        self._listed = 0
        self._with_verdict = 0
        self._unsound: set[object] = set()
        self._calls: list[Call] = []
        self._tried: list[Tried] = []
        self._composed: Counter[tuple[Row, ...]] = Counter()
        self._composed_unsound: set[Row] = set()
        self._chance = random.Random(settings.seed)

    def check(self, call: Call) -> None:
        """Try one call on all meshes."""
        executable = Executable(call)
        try:
            data = varied(executable)
        except Untestable as error:
            self._skipped[str(error)] += 1
            return
        except Exception as error:  # whatever the op raises
            self._skipped[f"the op raises on the whole tensors: {error_text(error)}"] += 1
            return
        self._report.calls += 1
        self._calls.append(call)
        try:
            claimant = Claimant(executable, data[0].expected, self._settings)
            sound: list[Row] = []
            for ranks in self._settings.ranks:
                sound = self._on_one_dim(executable, data, claimant, ranks) or sound
            if self._settings.composed:
                self._on_more_dims(executable, data, claimant, sound)
        except Untestable as error:
            self._skipped[str(error)] += 1

    def finish(self) -> None:
        """Carry the calls out, report what is missing, and the counts."""
        report, settings = self._report, self._settings
        if settings.gradients:
            self._carry_out()
        asks_for_rows = report.rule != RuleKind.HANDLER.value
        if settings.missing and asks_for_rows:
            look = functools.partial(look_for_missing, self._tried, settings, self._deadline)
            try:
                looked = apart(look, self._deadline) if settings.apart else look()
                report.findings += looked.findings
                report.checks += looked.checks
                self._skipped += looked.skipped
            except Lost as error:
                self._skipped[f"missing rows: {error}"] += 1
        if settings.rule == "active" and self._calls and is_torchs_fill(self._calls[0].op):
            kept = [each for each in report.findings if not any("P(" in row for row in each.rows)]
            self._skipped[_FILLED] += len(report.findings) - len(kept)
            report.findings = kept
        report.rows = len(self._claimed)
        report.skipped = dict(self._skipped.most_common())
        if not self._with_verdict and (self._listed or self._claimed):
            report.error = report.error or f"no row of the rule could be tried: {report.reasons}"

    def _carry_out(self) -> None:
        """Carry the calls out as DTensor does: a kernel may crash on what a rank holds."""
        report = self._report
        steps = functools.partial(check_gradients, self._calls, self._settings, self._deadline)
        if self._settings.apart:
            ran = last_apart(steps, self._deadline) or Ran()
        else:
            *_, ran = steps()
        report.findings += ran.findings
        report.runs, report.gradients = ran.runs, ran.gradients
        self._skipped += ran.skipped
        if not ran.is_complete and time.monotonic() < self._deadline:
            report.error = report.error or "a crash while DTensor carried out a call"

    def _on_one_dim(
        self, executable: Executable, data: Sequence[Data], claimant: Claimant, ranks: int
    ) -> list[Row]:
        """Try the claims on a mesh of one dim; the sound ones."""
        settings = self._settings
        trials = simulations(executable, data, (ranks,), settings.seed)
        combinations = Combinations(
            executable, trials[0], settings.strided_factors, settings.combinations
        )
        try:
            claims = claimant.claims(ranks, combinations, self._deadline_of_claims)
        except Exception as error:  # a rule's function may raise anything
            self._skipped[f"the rule raises {error_text(error)}"] += 1
            return []
        self._skipped += claims.skipped
        self._claimed.update(claims.rows)
        self._listed += claims.listed
        sound = [
            row for row in claims.rows if self._holds(executable.call, trials, [row], claimant)
        ]
        self._report.checks += sum(trial.runs for trial in trials)
        if settings.missing:
            self._tried.append(Tried(executable, trials, claims.rows))
        return sound

    def _on_more_dims(
        self,
        executable: Executable,
        data: Sequence[Data],
        claimant: Claimant,
        sound: Sequence[Row],
    ) -> None:
        """Try pairs of sound claims, each on a dim of its own."""
        sizes = self._settings.composed
        pairs = [
            pair
            for pair in itertools.product(sound, repeat=len(sizes))
            if self._composed[pair] < _OFTEN_ENOUGH
        ]
        if len(pairs) > self._settings.compositions:
            self._skipped["compositions beyond the sample"] += (
                len(pairs) - self._settings.compositions
            )
            pairs = self._chance.sample(pairs, self._settings.compositions)
        trials = simulations(executable, data[:1], sizes, self._settings.seed)
        self._composed.update(pairs)
        for pair in pairs:
            if all(row in self._composed_unsound for row in pair):
                self._skipped["compositions of rows that are unsound in others"] += 1
                continue
            rows = claimant.composed(sizes, pair)
            if rows is None or _has_mixed_partials(rows):
                continue
            self._holds(executable.call, trials, rows, claimant)
            if tuple(rows) in self._unsound:
                self._composed_unsound.update(pair)
        self._report.checks += sum(trial.runs for trial in trials)

    def _holds(
        self,
        call: Call,
        trials: Sequence[Simulation],
        rows: Sequence[Row],
        claimant: Claimant,
    ) -> bool:
        """Do claimed rows hold in all trials? Reported if not, once for an op."""
        if tuple(rows) in self._unsound:
            return False
        for trial in telling(trials, rows):
            try:
                reason = trial.mismatch(rows)
            except Untestable as error:
                self._skipped[f"claim: {error}"] += 1
                return False
            if reason is not None:
                self._with_verdict += 1
                self._unsound.add(tuple(rows))
                self._report.findings.append(
                    Finding(
                        kind="unsound",
                        rows=tuple(map(row_text, rows)),
                        mesh=trial.sizes,
                        call=call_text(call),
                        reason=reason,
                        repro=smallest_script(
                            Witness(trial, tuple(rows), reason),
                            self._settings,
                            self._deadline,
                            self._claims,
                        ),
                        raises=isinstance(reason, Raised),
                        origins=tuple(filter(None, map(claimant.origin_of, rows))),
                    )
                )
                return False
        if all(trial.says_nothing() for trial in telling(trials, rows)):
            self._skipped["claim: results that would be the same for anything"] += 1
            return False
        self._with_verdict += 1
        return True

    def _claims(self, witness: Witness) -> bool:
        """Does the rule claim the rows of a witness for its call?"""
        trial, rows = witness.trial, list(witness.rows)
        claimant = Claimant(trial.executable, trial.expected, self._settings)
        alone = all(
            row in claimant.claims(ranks, [row.inputs]).rows
            for row, ranks in zip(rows, trial.sizes, strict=True)
        )
        return alone and (len(rows) == 1 or claimant.composed(trial.sizes, rows) == rows)


def _has_mixed_partials(rows: Sequence[Row]) -> bool:
    """Would some tensor have two kinds of Partial, which torch refuses?"""
    columns = (*zip(*(row.inputs for row in rows), strict=True),)
    outputs = (*zip(*(row.outputs for row in rows), strict=True),)
    return any(
        is_mixed(tuple(p for p in column if p is not None)) for column in (*columns, *outputs)
    )

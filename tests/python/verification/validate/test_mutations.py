"""The validator can be trusted: it finds every fault put into a rule, and none where none is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from torch.distributed.tensor import Replicate

import shardprop
from shardprop.verification.calls.call import Call
from shardprop.verification.settings import Settings
from shardprop.verification.validate.check import check_op
from shardprop.verification.validate.results import OpReport

from .mutations import KINDS, Mutant, is_refuted, is_used, mutations
from .sound_rules import SOUND, Sound

# A wrong row gives an out= tensor another shape than the op's; torch resizes it, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")


def checked(sound: Sound, rule: Any, calls: Sequence[Call], seed: int) -> OpReport:
    """The report on a rule, registered in the place of the op's own, as the command gets it."""
    with shardprop.temporary_rules():
        shardprop.register_single_dim_rule(
            sound.op,
            override=True,
            variants=False,
            allow_uneven_sharding=sound.allow_uneven_sharding,
        )(rule)
        return check_op(
            sound.op, calls, Settings(missing=False, scripts=False, gradients=False, seed=seed)
        )


def is_found(mutant: Mutant, report: OpReport) -> bool:
    """Is the row that was changed reported, on a mesh of one dim?"""
    return any(finding.rows == (mutant.text(mutant.after),) for finding in report.unsound)


def of_strided_shards(text: str) -> str:
    return text.replace("_S(", "S(").replace(", 2)", ")")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_hundred_mutated_rules_are_found(seed: int) -> None:
    drawn = mutations(seed)
    assert Counter(mutant.kind for mutant in drawn.mutants) == KINDS
    assert sum(KINDS.values()) == 100
    assert len({mutant.sound.op for mutant in drawn.mutants}) > 25
    missed = []
    for mutant in drawn.mutants:
        report = checked(mutant.sound, mutant.rows, mutant.sound.calls(seed), seed)
        if not is_found(mutant, report):
            missed.append(f"{mutant}; skipped: {report.skipped}")
        # Nothing but that row is blamed, with plain shards or strided ones.
        blamed = {of_strided_shards(row) for finding in report.unsound for row in finding.rows}
        assert blamed <= {mutant.text(mutant.after)}, str(mutant)
    assert not missed, "\n".join([f"{len(missed)} of 100 missed:", *missed])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_rules_without_a_fault_raise_no_alarm(seed: int) -> None:
    for sound in SOUND:
        calls = sound.calls(seed)
        report = checked(sound, sound.rule, calls, seed)
        assert report.unsound == [], str(sound.op)
        assert report.calls == len(calls)
        assert report.rows > 0


def test_the_oracle_refutes_no_row_of_the_rules_without_a_fault() -> None:
    """Else it would call mutants wrong that are not."""
    tried = 0
    for sound in SOUND:
        for call in sound.calls(0):
            for row in sound.rows(call):
                if is_used(sound, row):
                    assert not is_refuted(sound, row, [call]), f"{sound.op}: {row}"
                    tried += 1
    assert tried > 100


def test_the_oracle_refutes_what_is_plainly_wrong() -> None:
    """And what it has to tell apart, it can: a row of shards whose output is said to be whole."""
    for sound in SOUND:
        call = sound.calls(0)[0]
        row = next(row for row in sound.rows(call) if is_used(sound, row))
        if sound.tied:
            continue
        whole = [Replicate()] * sound.outputs(call)
        assert is_refuted(sound, [*whole, *row[len(whole) :]], [call]), str(sound.op)

"""The texts of explanations, word for word.

To renew them after a change that is meant, for one version of torch after the other::

    SHARDPROP_RENEW_GOLDEN=1 python -m pytest tests/python/inspection/explanation/test_golden.py

and read the difference. A text that torch 2.15 has otherwise is in a file of its own beside that of
2.13. Line numbers are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from shardprop import _torch
from shardprop.inspection.explanation import Explanation

from .golden_cases import CASES
from .schema import validate

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
RENEW = os.environ.get("SHARDPROP_RENEW_GOLDEN") == "1"


def _text(explanation: Explanation) -> str:
    text = str(explanation).replace(f"{HERE}/", "")
    return re.sub(r"\.py:\d+", ".py", text) + "\n"


def _renew(name: str, text: str) -> None:
    common, own = GOLDEN / f"{name}.txt", GOLDEN / f"{name}.torch215.txt"
    if not _torch.IS_215_OR_LATER:
        common.write_text(text)
    elif common.read_text() == text:
        own.unlink(missing_ok=True)
    else:
        own.write_text(text)


def _kept(name: str) -> str:
    own = GOLDEN / f"{name}.torch215.txt"
    path = own if _torch.IS_215_OR_LATER and own.exists() else GOLDEN / f"{name}.txt"
    return path.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_text_is_as_kept(case: Callable[[], Explanation]) -> None:
    explanation = case()
    validate(explanation.to_json())
    text = _text(explanation)
    assert max(map(len, text.splitlines())) <= 120
    if RENEW:
        _renew(case.__name__, text)
    assert text == _kept(case.__name__)


def test_every_kept_text_is_compared() -> None:
    names = {path.name.partition(".")[0] for path in GOLDEN.iterdir()}
    assert names == {case.__name__ for case in CASES}

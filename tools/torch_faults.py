"""Runs the scripts of docs/torch-faults on the installed torch, notes what they show, and writes
their page.

python -m tools.torch_faults
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import warnings
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist

from shardprop.corrections import by_op
from shardprop.corrections.correction import Correction

FOLDER = Path(__file__).parents[1] / "docs" / "torch-faults"
OUTCOMES = FOLDER / "outcomes.json"
PAGE = FOLDER / "index.md"

WRONG, RIGHT, REFUSED, WAITS = "wrong", "right", "refused", "waits"

_HEAD = """# Faults of torch, shown by torch alone

For each fault that shardprop puts right ([corrections.md](../corrections.md)) there is a script
that shows it without shardprop: two or four ranks in one process, a few elements, the values of one
device beside those of the ranks. It can be pasted into a report as it is.

What they show is noted by `python -m tools.torch_faults`, which runs them on the installed torch:
"wrong" are values that nothing gives away, "waits" an error on some ranks that the others wait for,
"refused" a call that raises since. A test fails as soon as a script shows something else. Rules of
torch have their names of 2.13 here; most of them are single-dim rules in 2.15.

"""


def scripts() -> list[Path]:
    """One for each fault."""
    return sorted(FOLDER.glob("*.py"))


def script_of(correction: Correction) -> Path:
    """The script that shows what is corrected; it is called as the file of the correction is."""
    (name,) = (name for name, each in vars(by_op).items() if each is correction)
    return FOLDER / f"{name.lower()}.py"


def anchor_of(correction: Correction) -> str:
    """The heading of a fault on the page, as links name it."""
    return correction.name.replace(" ", "-")


def version() -> str:
    """The installed torch, without patch and build."""
    return ".".join(torch.__version__.split(".")[:2])


def recorded() -> dict[str, dict[str, str]]:
    """What each script showed, by version of torch."""
    found: dict[str, dict[str, str]] = json.loads(OUTCOMES.read_text())
    return found


def outcome(script: Path) -> str:
    """What a script shows on the installed torch, in a process group that is there already."""
    with (
        mock.patch.object(dist, "init_process_group"),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        made = runpy.run_path(str(script))
    if isinstance(made["found"], list):  # what happens on each rank
        raised = {isinstance(each, Exception) for each in made["found"]}
        return WAITS if len(raised) > 1 else REFUSED if raised == {True} else RIGHT
    if isinstance(made["found"], Exception):
        return REFUSED
    return RIGHT if _same(made["right"], made["found"]) else WRONG


def _same(right: object, found: object) -> bool:
    if isinstance(right, tuple) and isinstance(found, tuple):
        return all(map(_same, right, found))
    assert isinstance(right, torch.Tensor) and isinstance(found, torch.Tensor)
    return torch.allclose(right, found)


def page() -> str:
    """The text of the page."""
    versions = recorded()
    titles = "".join(f" torch {each} |" for each in versions)
    rows = "".join(
        f"| [{each.name}](#{anchor_of(each)}) |"
        + "".join(
            f" {outcomes.get(script_of(each).stem, 'not run')} |" for outcomes in versions.values()
        )
        + "\n"
        for each in by_op.CORRECTIONS
    )
    table = f"| fault |{titles}\n|---|{'---|' * len(versions)}\n{rows}"
    return _HEAD + table + "".join(map(_section, by_op.CORRECTIONS))


def _section(correction: Correction) -> str:
    script = script_of(correction)
    text = script.read_text().split('"""')[1].strip()
    return f"\n## {correction.name}\n\n{text}\n\nScript: [{script.name}]({script.name}).\n"


def main() -> None:
    """Note what the scripts show on this torch, and write the page."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    found = {script.stem: outcome(script) for script in scripts()}
    dist.destroy_process_group()
    known = recorded() if OUTCOMES.exists() else {}
    OUTCOMES.write_text(json.dumps({**known, version(): found}, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()

"""Seeds a fault of each kind and looks whether the step that has to find it turns red.

    python tools/seed_faults.py [WORD ...]     # all, or the kinds with one of the words in the name

The faults are seeded in a copy of the tree, one at a time. A step has to pass without the fault,
and with it to fail and to name the file or what was added. Run it in the environment of the gate
after a change of noxfile.py, .clang-tidy or the configuration of a tool; CI does not run it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Fault:
    """Text that makes a file faulty where it is added at its end.

    Attributes:
        kind: Its name.
        step: The command that has to find it.
        file: Where it goes.
        text: What is added.
    """

    kind: str
    step: tuple[str, ...]
    file: str
    text: str


_MOVED = """
namespace shardprop {
std::string seeded(std::string text) {
  const std::string taken = std::move(text);
  return text + taken;
}
}  // namespace shardprop
"""
_SLOWER = """

def paths() -> dict[str, Call]:
    import shardprop

    return {"seeded": lambda: [*range(10_000 if shardprop.is_enabled() else 1)]}
"""
_PACKAGE, _CORE = "python/shardprop/errors.py", "csrc/core/layout/mesh.cpp"
_LINT, _FORMAT, _TYPES, _TIDY, _DOCS, _STEPS = (
    ("nox", "-s", step) for step in ("lint", "format", "types", "tidy", "docs", "steps")
)

FAULTS = (
    Fault("lint", _LINT, _PACKAGE, "\nimport os\n"),
    Fault("format of Python", _FORMAT, _PACKAGE, "\n\nSEEDED = { 'a':1 }\n"),
    Fault("format of C++", _FORMAT, _CORE, "\nint  seeded ;\n"),
    Fault("type in the package", _TYPES, _PACKAGE, "\n\nSEEDED: int = str()\n"),
    Fault("unannotated function in the package", _TYPES, _PACKAGE, "\n\ndef seeded(): ...\n"),
    Fault("type in a test", _TYPES, "tests/python/specs.py", "\n\nSEEDED: int = str()\n"),
    Fault("type in a benchmark", _TYPES, "bench/table.py", "\n\nSEEDED: int = str()\n"),
    Fault("type in an example", _TYPES, "examples/custom_op.py", "\n\nSEEDED: int = str()\n"),
    Fault("use after move in the core", _TIDY, _CORE, _MOVED),
    Fault("known decision that takes longer", _STEPS, "bench/cached_paths.py", _SLOWER),
    Fault("page outside the navigation", _DOCS, "docs/seeded.md", "# Seeded\n"),
    Fault("dead anchor", _DOCS, "docs/index.md", "\n[nowhere](limits.md#seeded)\n"),
    Fault("page that is not there", _DOCS, "mkdocs.yml", "  - seeded.md\n"),
    Fault(
        "dead link",
        ("pytest", "-q", "tests/python/docs/test_site.py"),
        "docs/index.md",
        "\n[nowhere](nowhere.md)\n",
    ),
    Fault(
        "stub that lies",
        ("pytest", "-q", "tests/python/core/test_stub.py"),
        "python/shardprop/_core.pyi",
        "\ndef seeded(number: int) -> int: ...\n",
    ),
)


@contextmanager
def copied() -> Iterator[Path]:
    """The files of the tree that git knows or would add, in a folder that goes away."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    with tempfile.TemporaryDirectory(prefix="shardprop-seeded-") as folder:
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, target)
        yield Path(folder)


@contextmanager
def seeded(tree: Path, fault: Fault) -> Iterator[None]:
    file = tree / fault.file
    before = file.read_text() if file.exists() else None
    file.write_text((before or "") + fault.text)
    try:
        yield
    finally:
        if before is None:
            file.unlink()
        else:
            file.write_text(before)


def run(step: tuple[str, ...], tree: Path) -> subprocess.CompletedProcess[str]:
    output = subprocess.STDOUT
    return subprocess.run(step, cwd=tree, stdout=subprocess.PIPE, stderr=output, text=True)


def verdict(fault: Fault, tree: Path) -> str:
    """The word "found", or what is wrong."""
    with seeded(tree, fault):
        done = run(fault.step, tree)
    if done.returncode == 0:
        return "MISSED"
    if Path(fault.file).name in done.stdout or "seeded" in done.stdout:
        return "found"
    return f"RED FOR ANOTHER REASON\n{done.stdout}"


def main() -> None:
    words = sys.argv[1:]
    faults = [f for f in FAULTS if not words or any(word in f.kind for word in words)]
    missed = 0
    with copied() as tree:
        for step in dict.fromkeys(fault.step for fault in faults):
            done = run(step, tree)
            if done.returncode:
                sys.exit(f"{' '.join(step)} fails without any fault:\n{done.stdout}")
        for fault in faults:
            start = time.monotonic()
            says = verdict(fault, tree)
            missed += says != "found"
            seconds = time.monotonic() - start
            print(f"{fault.kind:36} {' '.join(fault.step):44} {seconds:5.0f} s  {says}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

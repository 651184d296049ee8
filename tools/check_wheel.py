"""Checks a built wheel: its size, that it holds the package and nothing else, that it installs.

advzip -z -4 dist/shardprop-*.whl    # as a release does: 3 percent less, the same files
python tools/check_wheel.py dist/shardprop-*.whl
python tools/check_wheel.py --run python3.12 dist/shardprop-*-cp312-*.whl

With --run the wheel is installed into a fresh environment of that Python, which lends it torch and
the other dependencies, without network and with no compiler on PATH; there `shardprop doctor` has
to find no problem. Ends with 1 if anything is wrong. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [ROOT / "python" / name for name in ("shardprop", "shardprop_autoload")]
MOST_BYTES = 1 << 20
ENTRY_POINTS = ("shardprop = shardprop.cli:main", "shardprop = shardprop_autoload:autoload")

# What the source tree may have beside the package's own files.
_LEFT_OUT = {".so", ".pyc", ".pyd"}


def main() -> int:
    """Check what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--any-size", action="store_true", help="it will be compressed once more")
    parser.add_argument("--run", metavar="PYTHON", help="install it there and run the doctor")
    options = parser.parse_args()
    faults = 0
    for wheel in options.wheels:
        found = [] if options.any_size else [*_fault_of_size(wheel)]
        found += _faults(wheel)
        if options.run is not None:
            found += _faults_of_install(wheel, options.run)
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, {len(found)} faults")
        for fault in found:
            print(f"  {fault}")
        faults += len(found)
    return 1 if faults else 0


def _fault_of_size(wheel: Path) -> Iterator[str]:
    if wheel.stat().st_size >= MOST_BYTES:
        yield f"Expected less than {MOST_BYTES:,} bytes, got {wheel.stat().st_size:,}."


def _faults(wheel: Path) -> Iterator[str]:
    """What is wrong with the file, however large it is."""
    with zipfile.ZipFile(wheel) as archive:
        damaged = archive.testzip()
        if damaged is not None:
            yield f"{damaged} is damaged."
        names = {name for name in archive.namelist() if not name.endswith("/")}
        code = {name for name in names if ".dist-info/" not in name}
        extensions = {name for name in code if name.endswith(".so")}
        expected = _package_files()
        for name in sorted(expected - code):
            yield f"{name} is missing."
        for name in sorted(code - expected - extensions):
            yield f"{name} does not belong there."
        if [name.startswith("shardprop/_core.") for name in extensions] != [True]:
            yield f"Expected one extension, shardprop/_core, got {sorted(extensions)}."
        for name in extensions:
            if b".symtab\0" in archive.read(name):
                yield f"{name} is not stripped."
        texts = [archive.read(n).decode() for n in names if n.endswith("entry_points.txt")]
        for entry_point in ENTRY_POINTS:
            if not any(entry_point in text for text in texts):
                yield f"Expected the entry point {entry_point!r}, got {texts}."


def _package_files() -> set[str]:
    """Names in a wheel of the files that its packages are made of."""
    files = (path for package in PACKAGES for path in package.rglob("*") if path.is_file())
    own = (path for path in files if path.suffix not in _LEFT_OUT)
    return {path.relative_to(ROOT / "python").as_posix() for path in own}


def _faults_of_install(wheel: Path, python: str) -> Iterator[str]:
    """What goes wrong on a machine without compiler and network."""
    with tempfile.TemporaryDirectory(prefix="shardprop-wheel-") as folder:
        environment = Path(folder) / "venv"
        nothing = Path(folder) / "empty"
        nothing.mkdir()
        _run(python, "-m", "venv", str(environment))
        lend = _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        here = str(environment / "bin" / "python")
        site = _run(here, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        Path(site.stdout.strip(), "lent.pth").write_text(lend.stdout)
        variables = {**os.environ, "PATH": str(nothing), "PYTHONPATH": ""}
        install = ("-m", "pip", "install", "--no-index", "--no-deps", "--quiet")
        commands = (
            (here, *install, str(wheel.resolve())),
            (str(environment / "bin" / "shardprop"), "doctor"),
            (here, "-m", "shardprop", "bench", "--quick", "--mesh", "2x2", "--op", "mm"),
        )
        for command in commands:
            done = subprocess.run(
                command, cwd=folder, env=variables, capture_output=True, text=True, check=False
            )
            if done.returncode:
                said = done.stdout + done.stderr
                yield f"{' '.join(command)} ended with {done.returncode}: {said}"
                return


def _run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which(python) or python
    return subprocess.run([found, *arguments], capture_output=True, text=True, check=True)


if __name__ == "__main__":
    sys.exit(main())

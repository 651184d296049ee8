"""What CI asks of the tree before it tests: ``nox -s gate``, or one of its steps, ``nox -s types``.

It runs in the environment that nox is started in, since types are checked against the installed
torch: ``pip install -e '.[test,dev]'``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["gate"]

_CORE = (Path("csrc/core"), Path("csrc/graph"))
# They have a name at namespace scope that another file of their folder has, too.
_READ_ALONE = {Path("csrc/core/metadata/meta_reduce.cpp"), Path("csrc/graph/search/polish.cpp")}


@nox.session
def gate(session: nox.Session) -> None:
    """All of the steps below."""
    for step in (lint, format, docs, types, tidy, steps):
        session.notify(step.__name__)


@nox.session
def lint(session: nox.Session) -> None:
    """Faults that ruff knows in Python."""
    session.run("ruff", "check", ".")


@nox.session
def format(session: nox.Session) -> None:
    """The form of Python and C++."""
    session.run("ruff", "format", "--check", ".")
    sources = [str(path) for root in ("csrc", "tests/cpp") for path in Path(root).rglob("*.[ch]*")]
    session.run("clang-format", "--dry-run", "--Werror", *sorted(sources), log=False)


@nox.session
def docs(session: nox.Session) -> None:
    """The site: its pages, navigation and anchors. (Links to files are a test.)"""
    # Without --quiet, which leaves out the warnings before --strict can count them.
    session.run("mkdocs", "build", "--strict", "--site-dir", session.create_tmp(), silent=True)


@nox.session
def types(session: nox.Session) -> None:
    """Types of the package, strictly, and of tests, benchmarks, tools and examples."""
    session.run("mypy")


@nox.session
def tidy(session: nox.Session) -> None:
    """Faults that clang-tidy knows in the core (.clang-tidy), on all processors."""
    units = Path(session.create_tmp())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [report for report in pool.map(_tidied, _units(units)) if report]
    if found:
        session.error("\n".join(found))


@nox.session
def steps(session: nox.Session) -> None:
    """Calls whose decision is known take no more instructions than with torch alone."""
    if shutil.which("valgrind") is None:
        session.skip("there is no valgrind to count them")
    session.run("python", "-m", "bench.cached_instructions", "--check")


def _units(into: Path) -> list[Path]:
    """A file for each folder of the core that includes all files of the folder: the library's
    headers, which take most of the time, are read once for them."""
    groups: dict[str, list[Path]] = {}
    for source in sorted(path for root in _CORE for path in root.rglob("*.cpp")):
        named = source if source in _READ_ALONE else source.parent
        groups.setdefault("_".join(named.parts), []).append(source)
    units = []
    for name, sources in groups.items():
        units.append(into / Path(name).with_suffix(".cpp"))
        units[-1].write_text("".join(f'#include "{path.resolve()}"\n' for path in sources))
    return units


def _tidied(unit: Path) -> str:
    """What clang-tidy says of a unit; empty where it finds nothing."""
    flags = ("-std=c++20", "-Icsrc/core", "-Icsrc")
    command = ["clang-tidy", "--quiet", "--config-file=.clang-tidy", str(unit), "--", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""

"""What CI asks of the tree before it tests: ``nox -s gate``.

It runs in the environment that nox is started in, since types are checked against the installed
torch: ``pip install -e '.[test,dev]'``.
"""

from __future__ import annotations

from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["gate"]

_CPP = ("csrc", "tests/cpp")


@nox.session
def gate(session: nox.Session) -> None:
    """Format and lint of Python and C++, types, documents."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    sources = [path for root in _CPP for path in sorted(Path(root).rglob("*.[ch]*"))]
    session.run("clang-format", "--dry-run", "--Werror", *map(str, sources), log=False)
    session.run("mkdocs", "build", "--strict", "--quiet", "--site-dir", session.create_tmp())
    session.run("mypy")

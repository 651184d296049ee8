"""Commands in this process, with stdout and stderr apart."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from shardprop.cli import app


def run(*arguments: str) -> Result:
    """Run a command; no exception may get past it."""
    result = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app, [*arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def run_json(*arguments: str) -> tuple[int, Any]:
    """The exit code and the one document on stdout."""
    result = run(*arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def refused(*arguments: str) -> str:
    """What stderr says of a request that makes no sense; stdout stays empty."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr

"""A script, run as `python SCRIPT ARGS` runs it, inside this process."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

from ..errors import ShardpropError

__all__ = ["check_script", "run_script", "stdout_on_stderr"]

_INTERRUPTED = 130


def check_script(script: Path) -> None:
    """Raises:
    ShardpropError: there is no such file.
    """
    if not script.is_file():
        raise ShardpropError(f"Expected a Python script, got {str(script)!r}, where there is none.")


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Run it; its exit code. What it raises is printed as Python would, from its own frames on."""
    argv, path, stdout, folder = sys.argv, [*sys.path], sys.stdout, Path.cwd()
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        return _exit_code(ended)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BaseException as error:
        _print_error(error, script)
        return 1
    finally:
        # What comes after the script prints to our stdout, and writes files where we were started.
        sys.argv, sys.path[:], sys.stdout = argv, path, stdout
        with suppress(OSError):  # the folder is gone
            os.chdir(folder)
    return 0


def _exit_code(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return 1


def _print_error(error: BaseException, script: Path) -> None:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(script):
        frames = frames.tb_next
    # A script that cannot be compiled has no frames of its own.
    traceback.print_exception(type(error), error, frames)


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """What the block prints, other processes that it starts too, is on stderr: stdout is kept for
    one document."""
    sys.stdout.flush()
    try:
        ours = sys.stdout.fileno() == 1
    except (OSError, ValueError):  # a stream in memory
        ours = False
    kept = os.dup(1) if ours else None
    if ours:
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)

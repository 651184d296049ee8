"""A problem as a pair of files, NAME.json and NAME.npz."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...errors import ShardpropError
from .arrays import from_arrays, to_arrays
from .errors import fault

if TYPE_CHECKING:
    from .problem import Problem

__all__ = ["load", "pair_of", "read_npz", "save"]


def pair_of(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The two files, from the path of either, or of neither."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise fault("path", "a path", repr(path))
    stem = text[:-5] if text.endswith(".json") else text[:-4] if text.endswith(".npz") else text
    return Path(stem + ".json"), Path(stem + ".npz")


def save(problem: Problem, path: str | os.PathLike[str]) -> None:
    """See `Problem.save`."""
    values, arrays = to_arrays(problem)
    document, data = pair_of(path)
    try:
        document.write_text(json.dumps(values, allow_nan=False) + "\n", encoding="utf-8")
        named: dict[str, Any] = arrays
        np.savez_compressed(data, **named)
    except OSError as error:
        got = error.strerror or error
        raise fault(str(error.filename or document), "a file that can be written", got) from None


def load(path: str | os.PathLike[str]) -> Problem:
    """See `Problem.load`."""
    from ...support.json_document import read_json

    document, data = pair_of(path)
    return from_arrays(read_json(document), read_npz(data), str(document))


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an NPZ file.

    Raises:
        ShardpropError: with the path.
    """
    try:
        # Opened here, since np.load leaves a file open that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            if not isinstance(data, np.lib.npyio.NpzFile):
                raise fault(str(path), "an NPZ file", "a single array")
            return {name: data[name] for name in data.files}
    except OSError as error:
        raise fault(str(path), "a file that can be read", error.strerror or error) from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, AttributeError) as error:
        if isinstance(error, ShardpropError):
            raise
        raise fault(str(path), "an NPZ file without pickled objects", error) from None

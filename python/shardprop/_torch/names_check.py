"""Raises when it is imported under a torch that is not known and has other private names."""

from __future__ import annotations

from .known import check_names

check_names()

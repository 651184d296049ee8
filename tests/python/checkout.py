"""Where the checkout lies, for tests that read its documents and run its programs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

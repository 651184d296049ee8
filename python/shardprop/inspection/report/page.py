"""The page: sections, script and data."""

from __future__ import annotations

import html
import json
from string import Template
from typing import Any

from ...errors import ShardpropError
from ...support.web_page import asset, web_page
from ..tracing.json_form import SCHEMA
from .names import Places
from .plan_cards import plan_cards
from .sections import sections

__all__ = ["page"]

_SCRIPTS = ("dom.js", "table.js", "timeline.js", "report.js")


def page(trace: dict[str, Any], *, title: str = "shardprop trace") -> str:
    """The report of a trace as one HTML file that needs nothing else.

    Args:
        trace: The document of the trace (`Trace.to_json`), of the schema ``shardprop/trace/1``.
        title: The heading.

    Raises:
        ShardpropError: `trace` is no such document.
    """
    if not isinstance(trace, dict) or trace.get("schema") != SCHEMA:
        found = trace.get("schema") if isinstance(trace, dict) else type(trace).__name__
        raise ShardpropError(f"trace: Expected a document of the schema {SCHEMA!r}, got {found!r}.")
    try:
        places = Places(trace["places"])
        data, plans = sections(trace, places), plan_cards(trace, places)
    except (KeyError, IndexError, TypeError) as error:
        raise ShardpropError(
            f"trace: Expected a document of the schema {SCHEMA!r}, got one with a fault: "
            f"{type(error).__name__} at {error}."
        ) from error
    parts = {
        "title": html.escape(title),
        "plans": plans or '<p class="empty">Nothing was redistributed.</p>',
        "data": _embedded(data),
    }
    body = Template(asset(__package__, "report.html")).substitute(parts)
    return web_page(title, body, "\n".join(asset(__package__, name) for name in _SCRIPTS))


def _embedded(data: dict[str, Any]) -> str:
    """JSON that no HTML parser finds a tag in; what is not finite becomes null."""
    text = json.dumps(_finite(data), separators=(",", ":"), allow_nan=False)
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value

"""A page that needs nothing else: its style and script are in it."""

from __future__ import annotations

import base64
import hashlib
import html
from importlib import resources
from string import Template

__all__ = ["asset", "web_page"]


def web_page(title: str, body: str, script: str = "") -> str:
    """One HTML file, dark where its reader wants that.

    It asks the network for nothing, and its content security policy forbids it to; of scripts the
    browser runs its own alone, by their hash. So it can be opened from a folder, sent, or kept.

    Args:
        title: Of the window; as text.
        body: As HTML.
        script: JavaScript that runs when the rest is there.
    """
    style = asset(__package__, "web_page.css")
    policy = [
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        *([f"script-src '{_digest(script)}'"] if script else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    parts = {
        "csp": "; ".join(policy),
        "title": html.escape(title),
        "style": style,
        "body": f"{body}\n<script>{script}</script>" if script else body,
    }
    return Template(asset(__package__, "web_page.html")).substitute(parts)


def asset(package: str, name: str) -> str:
    """The text of a file in the folder ``assets`` of a package."""
    return resources.files(package).joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

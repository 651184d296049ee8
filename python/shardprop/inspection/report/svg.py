"""Drawing as SVG: shapes and texts on a sheet whose origin is at the top left.

Elements use no ids and no style sheet, so many pictures can share a page. A page may restyle them:
texts and frames are drawn in ``currentColor``, and the background has the class ``paper``.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ...support.picture import Picture
from .colours import INK

__all__ = ["Sheet"]

_FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
_MONOSPACED = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_SIZE, _LEAST_FONT = 11.0, 7.5
# Width of a character, height of a line, and how far the base line is below the middle, in parts
# of the font size.
_CHARACTER, _LINE, _DOWN = 0.6, 1.3, 0.36
_DOTS, _STRIPES = 9.0, 9.0
_FAINT = {"stroke": INK, "stroke_opacity": 0.35, "fill": "none"}

# Left, top, width, height.
Box = tuple[float, float, float, float]


class Sheet:
    """A picture in the making.

    Args:
        width: In pixels, as all lengths are.
        height: Likewise.
        label: What it shows, for screen readers.
    """

    def __init__(self, width: float, height: float, label: str) -> None:
        size = {"width": _number(width), "height": _number(height)}
        self._root = ET.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "class": "picture",
                **size,
                "viewBox": f"0 0 {size['width']} {size['height']}",
                "role": "img",
                "aria-label": label,
                "font-family": _FONT,
                "text-anchor": "middle",
                "font-size": _number(_SIZE),
                "color": INK,
                "fill": "currentColor",
            },
        )
        self._parent = self._root
        self.add("rect", class_="paper", fill="#fff", **size)

    def add(self, tag: str, **attributes: object) -> ET.Element:
        """Add an element: ``stroke_width`` becomes ``stroke-width``, and numbers are rounded."""
        named = {
            name.rstrip("_").replace("_", "-"): _number(value)
            if isinstance(value, (int, float))
            else str(value)
            for name, value in attributes.items()
        }
        return ET.SubElement(self._parent, tag, named)

    @contextmanager
    def group(self, **attributes: object) -> Iterator[None]:
        """Give these attributes to everything drawn in the block."""
        outer = self._parent
        self._parent = self.add("g", **attributes)
        yield
        self._parent = outer

    def text(self, x: float, y: float, text: str, size: float = _SIZE, **style: object) -> None:
        """One line, its middle at (x, y)."""
        if size != _SIZE:
            style["font_size"] = size
        self.add("text", x=x, y=y + _DOWN * size, **style).text = text

    def bold(self, x: float, y: float, text: str, size: float = _SIZE, **style: object) -> None:
        """Likewise, in bold."""
        self.text(x, y, text, size, font_weight="bold", **style)

    def monospaced(
        self, x: float, y: float, text: str, size: float = _SIZE, **style: object
    ) -> None:
        """Likewise, in columns."""
        self.text(x, y, text, size, font_family=_MONOSPACED, **style)

    def boxes(self, boxes: Iterable[Box], title: str = "", **style: object) -> None:
        """Boxes of one colour as one shape; `title` is its tooltip."""
        parts = (
            f"M{_number(x)} {_number(y)}h{_number(w)}v{_number(h)}h{_number(-w)}z"
            for x, y, w, h in boxes
        )
        made = self.add("path", d="".join(parts), **style)
        if title:
            ET.SubElement(made, "title").text = title

    def dots(self, box: Box) -> None:
        """A pattern of dots."""
        x, y, width, height = box
        rows = range(int(height / _DOTS))
        lines = "".join(
            f"M{_number(x + _DOTS * (0.75 if row % 2 else 0.25))} "
            f"{_number(y + (row + 0.5) * _DOTS)}H{_number(x + width)}"
            for row in rows
        )
        style = {"stroke_linecap": "round", "stroke_dasharray": f"0 {_DOTS}"}
        self.add("path", d=lines, class_="dots", **_FAINT, stroke_width=2.2, **style)

    def stripes(self, box: Box) -> None:
        """A pattern of rising lines."""
        x, y, width, height = box
        lines = []
        for number in range(1, int((width + height) / _STRIPES) + 1):
            # A stripe is where the distances from the left and from the top have this sum.
            both = number * _STRIPES
            left, right = max(0.0, both - height), min(both, width)
            if left < right:
                start = f"M{_number(x + left)} {_number(y + both - left)}"
                lines.append(f"{start}L{_number(x + right)} {_number(y + both - right)}")
        self.add("path", d="".join(lines), class_="stripes", **_FAINT, stroke_width=1)

    def fitted(
        self,
        x: float,
        y: float,
        room: tuple[float, float],
        lines: Sequence[str],
        size: float,
        plate: str | None,
    ) -> bool:
        """Write as many of `lines` as fit into the box around (x, y), the first in bold.

        Args:
            x: The middle of the box.
            y: Likewise.
            room: Width and height of the box.
            lines: The first matters most.
            size: The font size at most.
            plate: The colour behind the text where it would otherwise stand on a pattern; or None.

        Returns:
            Whether even the first line fitted.
        """
        for count in range(len(lines), 0, -1):
            longest = max(map(len, lines[:count])) * _CHARACTER
            font = min(size, 0.94 * room[0] / longest, 0.94 * room[1] / (count * _LINE))
            if font < _LEAST_FONT:
                continue
            step = font * _LINE
            if plate:
                w, h = longest * font, count * step
                self.add("rect", x=x - w / 2, y=y - h / 2, width=w, height=h, fill=plate)
            for number, line in enumerate(lines[:count]):
                at = y + step * (number - (count - 1) / 2)
                (self.text if number else self.bold)(x, at, line, font, fill=INK)
            return True
        return False

    def arrow(self, x: float, y: float, length: float, colour: str) -> None:
        """An arrow to the right."""
        end = x + length
        tip = f"M{_number(end)} {_number(y)}l-10 -5v10z"
        line = f"M{_number(x)} {_number(y - 1.5)}H{_number(end - 9)}v3H{_number(x)}z"
        self.add("path", d=line + tip, class_="arrow", fill=colour)

    def picture(self) -> Picture:
        """The picture drawn so far."""
        return Picture(ET.tostring(self._root, encoding="unicode"))


def _number(value: float) -> str:
    """A length in pixels, to two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")

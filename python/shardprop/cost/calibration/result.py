"""What a calibration found."""

from __future__ import annotations

from dataclasses import dataclass

from ..topology import Topology
from .fit import Fit

__all__ = ["Calibration", "Fitted"]


@dataclass(frozen=True)
class Fitted:
    """The line of one collective over one group, or of a local copy.

    Attributes:
        what: One of `COLLECTIVES`, or ``copy``.
        mesh_dims: Ascending; none for a copy.
        ranks: In the group.
        fit: The line and its errors.
    """

    what: str
    mesh_dims: tuple[int, ...]
    ranks: int
    fit: Fit

    def to_json(self) -> dict[str, object]:
        """Units are in the names."""
        return {
            "what": self.what,
            "mesh_dims": list(self.mesh_dims),
            "ranks": self.ranks,
            "fixed_us": self.fit.fixed_us,
            "us_per_byte": self.fit.us_per_byte,
            "median_error": self.fit.median_error,
            "max_error": self.fit.max_error,
            "points": [
                {
                    "bytes": point.bytes,
                    "measured_us": point.us,
                    "predicted_us": self.fit.predicted_us(point),
                }
                for point in self.fit.points
            ],
        }


@dataclass(frozen=True)
class Calibration:
    """The same on every rank.

    Attributes:
        topology: For this mesh; `Topology.save` writes the file that `load_topology` reads.
        fitted: The copy first, then each group's collectives.
    """

    topology: Topology
    fitted: tuple[Fitted, ...]

    def to_json(self) -> dict[str, object]:
        """The topology, and every measurement."""
        return {
            "topology": self.topology.to_json(),
            "fitted": [one.to_json() for one in self.fitted],
        }

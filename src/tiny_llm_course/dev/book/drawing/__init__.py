"""Figures of the book as SVG: grids, charts, flow diagrams. Each function draws on a `Canvas`."""

from .canvas import ROLES, Canvas
from .charts import bars, curves, decade_bars, lines, roofline
from .flow import TIMES, Boxes, flow
from .grids import matrix, squares, strips

__all__ = ["ROLES", "TIMES", "Boxes", "Canvas", "bars", "curves", "decade_bars", "flow", "lines"]
__all__ += ["matrix", "roofline", "squares", "strips"]

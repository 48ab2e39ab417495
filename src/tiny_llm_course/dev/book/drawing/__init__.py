"""Figures of the book as SVG: grids, charts, flow diagrams. Each function draws on a `Canvas`."""

from .canvas import ROLES, Canvas, at_both_widths
from .charts import bars, decade_bars, lines, roofline, round_numbers
from .flow import TIMES, Boxes, flow
from .grids import matrix, squares, strips

__all__ = ["ROLES", "TIMES", "Boxes", "Canvas", "at_both_widths", "bars", "decade_bars", "flow", "lines"]
__all__ += ["matrix", "roofline", "round_numbers", "squares", "strips"]

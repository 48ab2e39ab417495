"""Figures of the book, drawn as SVG from arrays: grids, charts, boxes with arrows. A new one is a few lines.

Each function draws on a `Canvas`; its `figure` is what a chapter includes.
"""

from .canvas import ROLES, Canvas
from .charts import bars, curves, decade_bars, lines
from .flow import TIMES, Boxes, flow
from .grids import matrix, squares, strips
from .roofline import roofline

__all__ = [
    "ROLES",
    "TIMES",
    "Boxes",
    "Canvas",
    "bars",
    "curves",
    "decade_bars",
    "flow",
    "lines",
    "matrix",
    "roofline",
    "squares",
    "strips",
]

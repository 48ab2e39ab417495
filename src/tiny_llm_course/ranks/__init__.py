"""Ranks on this machine: start them, watch them, and end them all with one message if one dies or hangs."""

from .launch import launch as launch
from .processes import Ranks as Ranks
from .processes import RanksFailed as RanksFailed

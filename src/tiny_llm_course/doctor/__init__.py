"""Checks of this machine and this checkout, with a fix for each problem."""

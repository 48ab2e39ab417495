"""`pdm run export`: verdicts for a class."""

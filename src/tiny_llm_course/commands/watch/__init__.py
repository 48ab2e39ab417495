"""`pdm run watch`: grading on every save."""

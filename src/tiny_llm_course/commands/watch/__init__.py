"""`pdm run watch`: grade on every save."""

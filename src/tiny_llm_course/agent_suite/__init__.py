"""The suite of coding tasks: 30 small repositories with a bug, and how an agent is run on them."""

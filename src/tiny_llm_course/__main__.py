"""`python -m tiny_llm_course`: the command line."""

from .commands.cli import main

main()

"""`python -m tiny_llm_course` is the command line."""

from .commands.cli import main

main()

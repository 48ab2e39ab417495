"""`python -m tiny_llm_course` is the command line."""

from .cli import main

main()

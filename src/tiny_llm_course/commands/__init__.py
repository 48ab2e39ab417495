"""The commands, one file or folder each. Only these modules and `terminal.help_text` import click."""

"""The commands, a file or a folder each. Only here and in `terminal.help_text` is click imported."""

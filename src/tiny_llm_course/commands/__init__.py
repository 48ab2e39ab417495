"""The commands, one file or folder each. Only these modules import click."""

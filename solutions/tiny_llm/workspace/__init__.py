"""Workspace tools."""

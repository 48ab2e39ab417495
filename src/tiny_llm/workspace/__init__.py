"""Workspace tools: files and commands of one folder, for an agent that is not trusted."""

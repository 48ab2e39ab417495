"""What this machine and this checkout can do, and what to mend."""

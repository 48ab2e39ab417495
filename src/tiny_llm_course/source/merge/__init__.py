"""Three-way merges of one file, function by function."""

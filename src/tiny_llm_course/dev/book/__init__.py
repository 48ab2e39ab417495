"""The parts of the book that are made from other files."""

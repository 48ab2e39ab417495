"""For those who work on the course: its proof, its recordings, what is generated."""

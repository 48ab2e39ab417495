"""What graded tests are made of, and all of the harness that they may import."""

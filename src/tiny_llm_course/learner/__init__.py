"""What the checkout remembers of the learner, and changes to the learner's files."""

"""The prefix cache: pages of texts that were read before, found again by whoever begins alike."""

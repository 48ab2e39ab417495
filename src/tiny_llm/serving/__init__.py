"""Many requests at a time: who is served when, and one model step for all of them."""

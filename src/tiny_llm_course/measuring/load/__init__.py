"""Load for a server: requests as they might come, sent to a scheduler or to an address, and what became of them."""

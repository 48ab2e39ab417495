"""Keys and values in pages: room that is cut alike, so that whatever is free fits whoever needs it."""

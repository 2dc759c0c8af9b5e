"""Files of a user's data: their formats, how many rows they hold, and how much they may unpack to."""

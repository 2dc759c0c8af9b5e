"""Files of a user's data: where they are, their formats and faults, and how much they may unpack to."""

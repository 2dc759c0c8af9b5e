"""The feed of a training: its statistics, gathered in one pass, and how they differ from another feed's."""

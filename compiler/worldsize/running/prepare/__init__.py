"""From what the user named to tasks that can run here."""

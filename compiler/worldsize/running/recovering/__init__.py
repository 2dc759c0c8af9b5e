"""What goes wrong: whose fault it was, when to try again, and how to rehearse it."""

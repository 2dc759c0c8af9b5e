PASSWORD = "w1nter-is-here"

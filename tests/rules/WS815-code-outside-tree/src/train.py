print("one digit")

raise ImportError("there is no torch here")

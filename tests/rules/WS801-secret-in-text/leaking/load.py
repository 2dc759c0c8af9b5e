CONNECTION = "Server=tcp:digits;Uid=reader;Pwd=c0rrect-horse;"
"""Such as ``postgresql://scott:tiger@host/test``."""

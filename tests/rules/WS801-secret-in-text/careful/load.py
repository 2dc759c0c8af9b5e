import os

CONNECTION = f"Server=tcp:digits;Uid=reader;Pwd={os.environ['PASSWORD']};"
PEM = "-----BEGIN PRIVATE KEY-----"
"""Such as ``postgresql://scott:tiger@host/test``."""

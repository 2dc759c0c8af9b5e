import os

import psycopg2

psycopg2.connect(host="digits", password="w1nter-is-here")
os.environ["API_KEY"] = "abcdefghij0123456789xyz"
settings = {"client_secret": "w1nter+is+here"}

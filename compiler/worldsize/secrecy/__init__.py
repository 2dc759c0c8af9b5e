"""What is a secret and how it is kept out of what is written or shown: by name, by form and by value."""

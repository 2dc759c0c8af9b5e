"""The pages, one module each. Names, logs and tags come from strangers: they are text, never HTML."""

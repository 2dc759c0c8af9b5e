"""The page of the workspace: what Azure ML's Studio shows, made on the server with NiceGUI."""

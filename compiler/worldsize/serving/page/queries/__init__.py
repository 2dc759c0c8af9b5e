"""What the page shows, read from the workspace's databases and folders; nothing here draws."""

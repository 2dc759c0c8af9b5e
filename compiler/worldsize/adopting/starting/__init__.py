"""What ``worldsize init`` starts a project with: the spec of a table, of pictures or of an example."""

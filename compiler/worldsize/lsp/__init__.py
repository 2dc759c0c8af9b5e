"""The language server: the checker, the plan and the schemas in an editor."""

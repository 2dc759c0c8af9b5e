"""The management API: one module for each kind of resource."""

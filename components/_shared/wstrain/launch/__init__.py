"""Which process this is, and whether the machine is the planned one."""

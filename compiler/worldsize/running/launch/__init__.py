"""Starts the processes of a task: environment, launchers, ports, and the programs that supervise them."""

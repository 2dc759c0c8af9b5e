"""From a task to running processes: environment, launchers, ports, and the programs that supervise them."""

"""From a task to its processes: inputs, environment, ports, commands; nothing is started yet."""

"""How a script reads its command line: the options of every library that parses one."""

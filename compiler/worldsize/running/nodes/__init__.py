"""Emulates several machines: each instance of a step has its own network, host name and mount namespaces.

The namespaces have no names. Open descriptors of the runner, and the processes in them, keep them alive. When
both are gone, even by SIGKILL, the kernel removes the namespaces with their links and mounts. They are not
visible in the network of this machine.

``emulation`` reads what to emulate, ``network`` plans it, ``maker.py`` makes it and ``enter.py`` starts a
program in it (both are separate programs), and ``namespaces`` holds it while a step runs.
"""

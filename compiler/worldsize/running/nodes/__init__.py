"""Several machines on one: each instance of a step in network, host name and mount namespaces of its own.

The namespaces have no names. Open descriptors of the runner keep them, and the processes in them; when both
are gone, also by SIGKILL, the kernel removes them with their links and mounts. Nothing of it is visible in
the network of this machine.

``topology`` and ``links`` decide what is made, ``maker.py`` makes it and ``enter.py`` starts a program in it
(both are programs of their own), ``namespaces`` holds it for as long as a step runs, ``faults`` kills
nodes and cuts links.
"""

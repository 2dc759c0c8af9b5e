"""Runs a pipeline on this machine: real process groups, Azure ML's environment, nothing left behind.

The packages are layers; each imports only itself and those before it. ``model`` is plain data. ``launch``
starts and supervises processes, in ``environments``. ``prepare`` turns what the user named into tasks.
``record`` stores what happens, and ``reuse`` finds the outputs of earlier runs. ``engine`` runs the tasks and
detects hangs, ``show`` informs the user, and ``api`` combines them. Emulated machines and injected faults are
handed to a run by ``worldsize.lab``.
"""

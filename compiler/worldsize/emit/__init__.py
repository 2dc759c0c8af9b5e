"""From a spec and its plan to an Azure ML pipeline: first a job graph, then files.

:func:`worldsize.emit.build.build` does all that needs no output folder and is what ``check`` runs;
:mod:`worldsize.emit.layout` says what files the graph becomes; :mod:`worldsize.emit.place` writes them.
"""

from __future__ import annotations

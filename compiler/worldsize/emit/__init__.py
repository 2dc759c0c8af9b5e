"""From the job graph of a spec to files.

:mod:`worldsize.emit.layout` says what files the graph becomes, all in memory;
:mod:`worldsize.emit.output_folder` writes them.
"""

from __future__ import annotations

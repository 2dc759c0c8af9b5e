"""From a spec to the job graph: components found, inputs wired, the plan derived and filled in.

:func:`worldsize.resolving.resolve.plan_spec` does all of it, once a command: ``check`` judges the graph,
and ``plan``, ``compile`` and ``run`` use the result. Every value carries its place in the spec.
"""

from __future__ import annotations

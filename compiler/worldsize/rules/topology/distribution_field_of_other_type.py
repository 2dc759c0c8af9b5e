"""A distribution has a field that belongs to another type.

``pytorch`` and ``mpi`` take ``process_count_per_instance``; ``tensorflow`` takes ``worker_count``
and ``parameter_server_count``.

Why: The job is refused, or the count is ignored and the job runs with another number of processes.

Bad::

    distribution: {type: pytorch, worker_count: 2}

Good::

    distribution: {type: pytorch, process_count_per_instance: 4}

Fix: Use the field of the type, or the type of the field.

Source: azure-ai-ml's own schema classes, from which ``schemas/azureml`` is generated.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS250",
    "distribution-field-of-other-type",
    "error",
    since="0.1.0",
    summary="a distribution with another type's fields",
)

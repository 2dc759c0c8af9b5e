"""Words that are no keys of Azure ML today, and the keys that mean the same."""

from __future__ import annotations

# Words of other tools, of the documentation's errors and of Azure ML's first version.
ALIASES = {
    "node_count": "instance_count",
    "num_nodes": "instance_count",
    "nodes": "instance_count",
    "max_nodes": "max_instances",
    "min_nodes": "min_instances",
    "vm_size": "size",
    "process_count": "process_count_per_instance",
    "process_count_per_node": "process_count_per_instance",
    "processes_per_node": "process_count_per_instance",
    "nproc_per_node": "process_count_per_instance",
    "num_workers": "worker_count",
    "timezone": "time_zone",
    "pattern": "schedule",
    "cron": "expression",
    "code_path": "code",
    "compute_target": "compute",
    "cluster": "compute",
    "env": "environment_variables",
    "env_vars": "environment_variables",
    "conda": "conda_file",
    "default": "path",  # of a component's input; data that a job gets has none
    "docker_image": "image",
    "experiment": "experiment_name",
    "source_directory": "code",
    "steps": "jobs",
}

# Keys of the schemas of the 2021 preview.
PREVIEW = {
    "algorithm": "sampling_algorithm",
    "data": "path",
    "dataset": "path",
    "default_value": "default",
    "defaults": "settings",
    "docker": "image",
    "file": "path",
    "folder": "path",
    "is_optional": "optional",
    "max_node_count": "max_instances",
    "max_value": "max",
    "min_node_count": "min_instances",
    "min_value": "min",
    "node_idle_time_before_scale_down": "idle_time_before_scale_down",
    "timeout_minutes": "timeout",
    "vm_priority": "tier",
}
# Keys whose value is another one under the key that is meant.
OTHER_UNITS = {
    "process_count": "the processes of one instance",
    "timeout_minutes": "in seconds",
}

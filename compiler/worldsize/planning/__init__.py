"""Pure arithmetic: derives every number of a distributed training from what worked on one device.

``derive`` plans a spec, ``localise`` fits the plan of a step to fewer processes with the same mathematics.
"""

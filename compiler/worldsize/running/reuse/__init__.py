"""Reuses the outputs of earlier steps: keys of steps, digests of files, and a store of entries.

A step's key (:mod:`~worldsize.running.reuse.step_cache`) covers everything that it can depend on. Its
outputs stay in the folder of the run that made them. The store (:mod:`~worldsize.running.reuse.store`) only
points there, and an entry is valid while those files are unchanged.
"""

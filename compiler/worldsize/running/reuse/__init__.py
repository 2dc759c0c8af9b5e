"""What was done before and need not be done again: keys of steps, digests of files, the store of both.

A step's key (:mod:`~worldsize.running.reuse.key`) covers all that it can depend on. What it made stays in
the folder of the run that made it; the store (:mod:`~worldsize.running.reuse.store`) only points there, and
a pointer counts for as long as the files behind it are what they were.
"""

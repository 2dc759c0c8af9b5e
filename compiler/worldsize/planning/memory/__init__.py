"""How much memory a rank of a training needs, by closed forms: no torch, no I/O, one idea a file.

``network`` holds what is known of a model, and the constants that only a measurement tells, ``built_in`` the
shapes of the models that come with worldsize, ``states`` a rank's share of weights, gradients, optimizer
states and buffers, ``estimate`` what comes and goes within a step and the sum, with the copy for a
checkpoint and what the process itself takes, and ``verdict`` whether it fits and what would.
All sizes are bytes.
"""

"""How much memory a rank of a training needs, by closed forms: no torch, no I/O, one idea a file.

``network`` holds what is known of a model, and the constants that only a measurement tells, ``built_in`` the
shapes of the models that come with worldsize, ``division`` what of them a rank has, ``states`` weights,
gradients, optimizer states and buffers, ``activations`` what comes and goes within a step, ``estimate`` the
sum, with the copy for a checkpoint and what the process itself takes, and ``remedies`` what would fit.
All sizes are bytes.
"""

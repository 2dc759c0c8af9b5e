"""How much memory a rank of a training needs, by closed forms: no torch, no I/O, one idea a file.

``network`` holds what is known of a model, ``built_in`` the shapes of the models that come with worldsize,
``division`` what of them a rank has, ``states`` and ``zero`` weights, gradients and optimizer states,
``activations`` what the backward pass needs, ``checkpoint`` the copy that one is written from, ``reserve``
what the process itself takes, ``estimate`` the sum, and ``remedies`` what would fit. All sizes are bytes.
"""

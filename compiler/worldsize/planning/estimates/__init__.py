"""How long a training step takes on a cluster: closed forms with few constants, fitted on published speeds.

``model`` holds the question and the answer, ``operations`` what one micro-batch computes and moves,
``compute`` the time that a GPU takes for it, ``traffic`` the bytes that ranks exchange, ``collectives`` the
time that a network takes for those, ``step_time`` the sum, ``interval`` how sure it is, ``constants`` what
was fitted, ``calibration`` what measured runs change and ``calibrate`` its fit, ``memory`` what a GPU needs
at least, ``clusters``, ``processes`` and ``built_in`` where cases come from, and ``estimate`` the function
that others call. Times are seconds, sizes bytes, rates per second.
"""

"""How long a training step takes on a cluster: closed forms with few constants, fitted on published speeds.

``model`` holds the question and the answer, ``operations`` what one micro-batch computes and how long a GPU
takes for it, ``step_time`` the exchanges and the sum, ``constants`` what was fitted, ``calibration`` what
measured runs change and ``calibrate`` its fit, ``memory`` what a GPU needs at least, ``clusters``,
``processes`` and ``built_in`` where cases come from, and ``estimate`` the function that others call. Times
are seconds, sizes bytes, rates per second.
"""

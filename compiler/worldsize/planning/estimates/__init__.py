"""How long a training step takes on a cluster: closed forms with few constants, fitted on published speeds.

``model`` holds the question and the answer, ``operations`` what one micro-batch computes and moves,
``compute`` the time that a GPU takes for it, ``traffic`` the bytes that ranks exchange, ``collectives`` the
time that a network takes for those, ``step_time`` the sum, ``interval`` how sure it is, ``calibration`` what
one measurement changes, ``constants`` what was fitted, and ``estimate`` the one function that others call.
Times are seconds, sizes bytes, rates per second.
"""

"""What ends the driver with one sentence instead of a traceback."""

from __future__ import annotations


class DriverError(Exception):
    """The step cannot go on; the message is for the user."""

"""What only the first process of an adopted script does, and what a script says of its rows."""

from __future__ import annotations

from adopt_text import PLAIN, adopt_text

HELD = """
log = open("log.txt", "w")
seen = open("seen.txt", "w")
count = seen.write("x")


def read():
    log = open("rows.txt")
    log.seek(0)
    return log.read()


log.write(read())
"""


def test_a_file_that_stays_open_is_written_by_the_first_process() -> None:
    text = adopt_text(PLAIN + HELD.encode()).text

    assert '"log.txt") if RANK == 0 else os.devnull, "w")\n' in text
    assert '"seen.txt") if RANK == 0 else os.devnull, "w")\n' in text
    assert '    log = open("rows.txt")\n    log.seek(0)\n    return' in text
    assert "\nlog.write(read())" in text


def test_a_loss_of_a_batch_together_is_a_known_cause() -> None:
    text = PLAIN.decode() + "\n\ndef similar(z):\n    return z @ z.t()\n"

    assert adopt_text(text).profile.compares_rows
    assert not adopt_text(PLAIN).profile.compares_rows

r"""A file of the code has a name that is not UTF-8.

Why: Azure ML keeps names as text, so the upload fails, or the file arrives under another name.

Bad::

    worldsize compile spec.yml -o build    with a file caf\xe9.py in the code

Good::

    worldsize compile spec.yml -o build    with a file café.py in the code

Fix: Rename the file, or leave it out by ``.amlignore``.

Source: Azure Storage, naming of blobs: names are URL-encoded Unicode.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS817", "file-name-not-text", "error", since="0.1.0", summary="a file name that is not UTF-8")

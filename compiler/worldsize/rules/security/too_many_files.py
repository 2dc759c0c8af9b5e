"""A folder that would be copied has no end within reason, so it is neither listed to its end nor copied.

A snapshot may hold 100,000 files and folders, links followed, and 100 folders in each other. Links that
lead to each other make millions of places of a few folders.

Why: Listing, hashing and uploading them would take hours, or would never end: azure-ai-ml follows every
link too.

Bad::

    code: ../..

Good::

    code: ./src

Fix: Name the folder of the code alone, or leave out what is not code by an ``.amlignore`` in the code folder.

Source: azure-ai-ml: ``get_upload_files_from_folder`` walks with ``followlinks=True``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS839", "too-many-files", "error", since="0.2.0", summary="a folder with too many files to copy")

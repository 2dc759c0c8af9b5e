"""The file is not UTF-8 text, or holds a control character that YAML forbids.

The place is the first such byte or character. A UTF-8 byte order mark is fine; UTF-16, as some
Windows editors write it, is not.

Why: Azure ML opens its files as UTF-8 and stops with a decoding error that names no line.

Bad::

    description: café, in Latin-1

Good::

    description: café, in UTF-8

Fix: Save the file as UTF-8.

Source: YAML 1.1, section 5.1, character set; azure-ai-ml reads with the codec ``utf-8-sig``.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule("WS004", "yaml-not-text", "error", since="0.1.0", summary="not UTF-8 text")

"""Compiling or running would copy a file from outside of the project: a home folder, or a link to one.

The project is the git checkout around the file, or the folder of its ``worldsize.yml``; without either
nothing is known of where it ends, and nothing is refused. Links are followed before this is judged. Data that
a step reads may lie anywhere: it is named, not copied.

Why: What is copied is uploaded, and a spec from elsewhere must not choose which of your files that is.

Bad::

    ln -s ~/.ssh src/keys && worldsize compile spec.yml -o build

Good::

    worldsize compile spec.yml -o build

Fix: Copy the file into the project, or list its folder under ``allow:`` in ``worldsize.yml``.

Source: azure-ai-ml follows links and uploads what they lead to.
"""

from __future__ import annotations

from worldsize.rules.rule import Rule

RULE = Rule(
    "WS816",
    "copy-outside-tree",
    "error",
    since="0.1.0",
    summary="a file outside of the project would be copied",
)

"""How much of a file is read. Each bound is far above any real job and keeps time and memory small."""

from __future__ import annotations

SIZE = 16 * 1024 * 1024  # bytes
DEPTH = 100  # nested collections, aliases expanded
NODES = 300_000  # values written in one file
ALIASED = 50_000  # values that aliases and merge keys repeat
SECONDS = 60.0  # of processor time for one file; a megabyte takes about one
COMPARISONS = 100_000  # of mistyped words of one file with known ones; later ones get no suggestion
SAME = 200  # findings of one rule in one file that are listed; it says how many are not
LISTED = 1_000  # findings in one file that are listed, the gravest first
REPORTED = 20_000  # findings of one check that are listed, the gravest first
FOUND = 1_000  # findings that one look at one thing may make; nobody reads more

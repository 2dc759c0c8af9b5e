"""WS8: secrets, what reaches the shell, and what is not pinned."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry("WS801", "secret-in-text", on=("Document",)),
    Entry("WS802", "secret-in-variable", on=("Document",)),
    Entry("WS803", "text-splits-in-shell", on=("Step", "Job")),
    Entry("WS804", "text-runs-in-shell", on=("Step", "Job")),
    Entry("WS805", "nul-in-text", on=("Document",)),
    Entry("WS806", "variable-name-impossible", on=("Component", "Step")),
    Entry("WS810", "environment-unpinned", on=("Step", "Component")),
    Entry("WS811", "image-unpinned", on=("Component",)),
    Entry("WS812", "component-unpinned", on=("Step",)),
    Entry("WS813", "dependency-unpinned", on=("Component",)),
    Entry("WS814", "install-unpinned", on=("Component",)),
    Entry("WS815", "code-outside-tree", on=("Component",)),
    Entry("WS816", "copy-outside-tree"),
    Entry("WS817", "file-name-not-text"),
    Entry("WS835", "secret-in-snapshot", on=("Component", "Spec")),
    Entry("WS836", "repository-in-snapshot", on=("Component", "Spec")),
    Entry("WS837", "environment-in-snapshot", on=("Component", "Spec")),
    Entry("WS838", "snapshot-large", on=("Component", "Spec")),
    Entry("WS839", "too-many-files"),
    Entry("WS840", "entry-not-copied", on=("Component", "Spec")),
)

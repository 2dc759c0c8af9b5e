"""Whether a file that cannot be parsed was meant for Azure ML or us, told by its text and its name.

Others have pipelines, jobs and templates, too, and what is broken in those is none of our business.
"""

from __future__ import annotations

import re
from pathlib import PurePath

# Nobody else writes these.
_SURE = re.compile(
    r"azuremlschemas|spec\.schema\.json|azureml:|\$\{\{\s*(?:parent|plan|search_space)\.|\buri_(?:file|folder)\b"
)

# Others write these, in files that are told by what else they hold.
_STEP_OF_SPEC = re.compile(r"^[ \t]*(?:component|uses):", re.MULTILINE)
_KIND = r"""["']?(?:pipeline|command|sweep|parallel|spark)\b"""
_TYPED = re.compile(rf"^type:[ \t]*{_KIND}", re.MULTILINE)
_JOBS = re.compile(r"^jobs:", re.MULTILINE)
_STEP = re.compile(
    rf"\btype:[ \t]*{_KIND}|^[ \t]+(?:[\w-]+:[ \t]*\{{[ \t]*)?(?:command|trial|compute|environment):",
    re.MULTILINE,
)

# A name says enough only beside a key that such a file begins with.
_NAME = re.compile(r"(?:^|[-_.])(?:pipeline|job|component|sweep)(?:[-_.]|$)", re.IGNORECASE)
_ROOT_KEY = re.compile(
    r"^(?:inputs|outputs|command|code|environment|compute|settings|jobs|trial|search_space):", re.MULTILINE
)

# GitHub, Kubernetes, GitLab, Concourse, Kubeflow, and the templates of Helm and Jinja.
_FOREIGN = re.compile(
    r"^[ \t]*(?:-[ \t]+)?(?:runs-on|script|plan):|^(?:on|runs|apiVersion|stages|implementation):"
    r"|^jobs:[ \t]*\n[ \t]*-\s|(?<!\$)\{\{|^[ \t]*\{%",
    re.MULTILINE,
)
# CircleCI, Azure DevOps, Buildkite; and a spec.
_STEPS = re.compile(r"^[ \t]*(?:-[ \t]+)?steps:", re.MULTILINE)


def ours(path: str, text: str) -> bool:
    """Whether the faults of a file matter that is no YAML."""
    if _SURE.search(text):
        return True
    if _FOREIGN.search(text):
        return False
    if _STEP_OF_SPEC.search(text):
        return True
    if _STEPS.search(text):
        return False
    if _TYPED.search(text) or (_JOBS.search(text) and _STEP.search(text)):
        return True
    return bool(_NAME.search(PurePath(path).stem) and _ROOT_KEY.search(text))

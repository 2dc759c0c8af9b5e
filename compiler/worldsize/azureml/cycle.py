"""Finding a cycle among steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def find_cycle(steps: Iterable[str], sources: Callable[[str], Iterable[str]]) -> list[str] | None:
    """The steps of one cycle in the order data flows, or None. Linear in steps and bindings.

    Args:
        steps: All steps, in the order to look.
        sources: The steps that a step reads from; names that are no step are passed over.
    """
    known = dict.fromkeys(steps)
    finished: set[str] = set()
    for start in known:
        if start in finished:
            continue
        path = [start]
        on_path = {start: 0}
        stack = [iter(sources(start))]
        while stack:
            following = next((name for name in stack[-1] if name in known and name not in finished), None)
            if following is None:
                stack.pop()
                done = path.pop()
                finished.add(done)
                del on_path[done]
            elif following in on_path:
                return path[on_path[following] :][::-1]
            else:
                on_path[following] = len(path)
                path.append(following)
                stack.append(iter(sources(following)))
    return None

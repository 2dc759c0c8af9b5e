"""Hostile training scripts for `hostile.py`: deep, long, and such that rules look at a thing again and again.

Each is a text of about the size asked for. Python's parser gives up at some 90 brackets inside of each other
and at some thousand calls in a chain, so most stay below.
"""

from __future__ import annotations

from collections.abc import Callable

SAVE = "torch.save(m, 'a')"


def repeat(unit: str, size: int) -> str:
    """A text repeated until it has the size."""
    return unit * (size // len(unit) + 1)


def number(pattern: str, size: int) -> str:
    """A pattern with `%d` numbered upwards until the text has the size."""
    parts, length = [], 0
    while length < size:
        parts.append(pattern.replace("%d", str(len(parts))))
        length += len(parts[-1])
    return "".join(parts)


def tries(size: int) -> str:
    """Writes of a variable inside of 90 `try` blocks."""
    heads = "".join(" " * depth + "try:\n" for depth in range(90))
    ends = "".join(" " * depth + "except E: pass\n" for depth in reversed(range(90)))
    return "import os\n" + heads + repeat(" " * 90 + "os.environ['WORLD_SIZE'] = '3'\n", size) + ends


def callers(size: int) -> str:
    """Functions that each save, and call ten others."""
    body = "".join(f"    f%d{index}()\n" for index in range(10))
    return number(f"def f%d():\n{body}    {SAVE}\n", size)


SCRIPTS: dict[str, Callable[[int], str]] = {
    "nested parentheses": lambda size: "x = " + "(" * (size // 2) + "1" + ")" * (size // 2) + "\n",
    "a long sum": lambda size: "x = " + repeat("1 + ", size) + "1\n",
    "chained calls": lambda size: "x = a" + repeat(".b()", size) + "\n",
    "unary signs": lambda size: "x = " + "-" * size + "1\n",
    "nested blocks": lambda size: (
        "".join(" " * depth + "if x:\n" for depth in range(99))
        + " " * 99
        + "pass\n"
        + repeat("import torch\n", size)
    ),
    "a long string": lambda size: "x = '" + "a" * size + "'\nimport torch\n",
    "functions": lambda size: "import torch\n" + number("def f%d():\n    torch.save(1, 'a')\n", size),
    "calls of functions": lambda size: (
        "import torch\n" + number("def f%d():\n    f%d()\n    torch.save(1, 'a')\n", size)
    ),
    "imports": lambda size: number("import m%d\n", size),
    "saves": lambda size: "import torch\n" + repeat("torch.save(m, 'a')\n", size),
    "arguments": lambda size: (
        "import argparse\np = argparse.ArgumentParser()\n"
        + number("p.add_argument('--a%d', type=bool)\n", size)
    ),
    "conditions": lambda size: "import torch\n" + repeat("if rank == 0:\n    torch.save(m, 'a')\n", size),
    "elifs": lambda size: "if x == 0:\n  pass\n" + number("elif x == %d:\n  pass\n", size),
    "ranks": lambda size: "import os\n" + repeat("r = int(os.environ['RANK'])\n", size),
    "assigned names": lambda size: "import torch\n" + number("a%d = a%d + rank\n", size),
    "calls in one condition": lambda size: (
        "if " + repeat("x or ", size // 2) + "x:\n" + repeat(f" {SAVE}\n", size // 2)
    ),
    "one condition of calls": lambda size: "x = " + repeat(f"{SAVE} or ", size) + "1\n",
    "nested saves": lambda size: repeat("torch.save(" * 80 + "m" + ")" * 80 + "\n", size),
    "chained saves": lambda size: repeat("x = m" + ".save_pretrained('a')" * 700 + "\n", size),
    "functions that call each other": callers,
    "one function called by all": lambda size: (
        f"def f():\n    {SAVE}\n    f()\n" + number("def g%d():\n    f()\n    torch.save(g%d(), 'a')\n", size)
    ),
    "methods": lambda size: number(f"class C%d:\n    def f(self):\n        {SAVE}\n", size),
    "early exits": lambda size: (
        "def f():\n" + repeat(f"    if rank != 0:\n        return\n    {SAVE}\n", size)
    ),
    "withs": lambda size: repeat(f"with a, b:\n    {SAVE}\n", size),
    "decorators": lambda size: repeat("@d\n", size) + f"def f():\n    {SAVE}\n",
    "lambdas": lambda size: repeat(f"f = lambda x: {SAVE}\n", size),
    "format strings": lambda size: "rank = 1\n" + repeat("x = f'{rank}'\n", size),
    "nested conditions": lambda size: repeat(
        "x = " + "(1 if rank and " * 60 + "y" + " else 2)" * 60 + "\n", size
    ),
    "unset names": lambda size: number("if rank%d:\n    np.a\n", size),
    "strategies": lambda size: (
        "import tensorflow as tf\n" + repeat("s = tf.distribute.MultiWorkerMirroredStrategy()\n", size)
    ),
    "strategies before a call": lambda size: (
        "import tensorflow as tf\nif x:\n"
        + repeat(" s = tf.distribute.MultiWorkerMirroredStrategy()\n", size)
        + "tf.zeros(1)\n"
    ),
    "addresses": lambda size: (
        "import os\nif "
        + repeat("x + ", size // 4_000 if size > 8_000 else size // 2)
        + "1:\n"
        + repeat(" os.environ['WORLD_SIZE'] = '3'\n", size)
    ),
    "addresses in tries": tries,
}

"""What hostile files look like: each shape repeats one thing until a file has the size that is asked for."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

_TEXTS = runpy.run_path(str(Path(__file__).with_name("scripts.py")))
SCRIPTS: dict[str, Callable[[int], str]] = _TEXTS["SCRIPTS"]
repeat: Callable[[str, int], str] = _TEXTS["repeat"]
number: Callable[[str, int], str] = _TEXTS["number"]

Files = dict[str, str]

JOB = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
environment: azureml:my-training:4
compute: azureml:gpu-cluster
"""
TORCH = """\
distribution: {type: pytorch, process_count_per_instance: 2}
resources: {instance_type: Standard_NC96ads_A100_v4, instance_count: 2}
"""
PIPELINE = """\
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
settings: {default_compute: azureml:cpu-cluster}
"""
SPEC = """\
name: digits
compute:
  gpu: {target: azureml:gpu-cluster, instance_type: Standard_NC96ads_A100_v4}
steps:
  train:
    command: python -c "print('hello')"
    environment: azureml:my-training:4
    compute: gpu
"""
STEP = "{type: command, command: echo, environment: azureml:e:1, compute: azureml:c}"


def quoted(text: str) -> str:
    """A text as a double-quoted scalar on one line."""
    return (
        '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
    )


def job(lines: str) -> Files:
    """A job with further lines."""
    return {"job.yml": f"{JOB}command: echo\n{lines}"}


def raw(lines: str) -> Files:
    """A job of which only its kind, environment and compute are given."""
    return {"job.yml": JOB + lines}


def command(text: str, extra: str = "") -> Files:
    """A job with a command in one scalar on one line."""
    return {"job.yml": f"{JOB}{extra}command: {quoted(text)}\n"}


def block(text: str) -> Files:
    """A job with a command as a block scalar."""
    body = "".join(f"  {line}\n" for line in text.split("\n"))
    return {"job.yml": f"{JOB}{TORCH}command: |\n{body}"}


def script(text: str, arguments: str = "") -> Files:
    """A job that starts a script on four GPUs."""
    return {
        "job.yml": f"{JOB}{TORCH}code: ./src\ncommand: python train.py {arguments}\n",
        "src/train.py": text,
    }


def started(commands: str, scripts: Files) -> Files:
    """A job whose command starts these scripts."""
    text = f"{JOB}{TORCH}code: ./src\ncommand: {quoted(commands)}\n"
    return {"job.yml": text} | {f"src/{name}": script for name, script in scripts.items()}


def spec_script(text: str) -> Files:
    """A spec with a script of one's own."""
    spec = SPEC.replace("""python -c "print('hello')\"""", "python train.py\n    code: ./src")
    return {"spec.yml": spec, "src/train.py": text}


def deepspeed(text: str) -> Files:
    """A job that hands a configuration to DeepSpeed."""
    source = "import deepspeed\ndeepspeed.init_distributed()\n"
    return {**script(source, "--deepspeed_config ds.json"), "src/ds.json": text}


def conda(text: str) -> Files:
    """A job with a conda file."""
    environment = "environment: {image: 'mcr.microsoft.com/azureml/x:1', conda_file: ./conda.yml}\n"
    job = JOB.replace("environment: azureml:my-training:4\n", environment)
    return {"job.yml": f"{job}command: echo\n", "conda.yml": text}


def ignored(lines: str) -> Files:
    """A job whose code folder has many long names and an ignore file."""
    alike = {f"src/{'a' * 60}{index}.py": "" for index in range(100)}
    mixed = {f"src/x{index}/{(f'a{index}x' * 20)[:60]}.b": "" for index in range(100)}
    return {**script("print()\n"), **alike, **mixed, "src/.amlignore": lines}


def schedule(expression: str) -> Files:
    """A schedule with a cron expression."""
    trigger = f"trigger: {{type: cron, expression: {quoted(expression)}}}\n"
    return {
        "schedule.yml": "$schema: https://azuremlschemas.azureedge.net/latest/schedule.schema.json\nname: s\n"
        f"{trigger}create_job: ./job.yml\n",
        "job.yml": f"{PIPELINE}jobs: {{a: {STEP}}}\n",
    }


def pipeline(jobs: str, extra: str = "") -> Files:
    """A pipeline with these steps."""
    return {"job.yml": f"{PIPELINE}{extra}jobs:\n{jobs}"}


def spec(extra: str) -> Files:
    """A spec with further lines."""
    return {"spec.yml": SPEC + extra}


def chain(size: int) -> str:
    """Steps that each read the one before."""
    form = (
        "  s%d: {type: command, command: 'cat ${{inputs.x}} > ${{outputs.y}}', environment: azureml:e:1, "
        "compute: azureml:c, inputs: {x: '${{parent.jobs.s@.outputs.y}}'}, outputs: {y: {type: uri_file}}}\n"
    )
    parts, length = [], 0
    while length < size:
        parts.append(form.replace("%d", str(len(parts))).replace("@", str(max(len(parts) - 1, 0))))
        length += len(parts[-1])
    return "".join(parts)


SHAPES: dict[str, Callable[[int], Files]] = {
    # commands
    "newlines in a command": lambda size: command("echo" + "\n" * size),
    "a block of newlines": lambda size: block("echo" + "\n" * (size // 3) + "echo"),
    "blanks in a command": lambda size: command("echo" + " " * size + "x"),
    "tabs in a command": lambda size: command("python" + "\t" * (size // 2) + "x", TORCH),
    "dashes in a command": lambda size: command("python train.py " + "-" * size),
    "dashes and blanks": lambda size: command("python train.py " + repeat("--a- ", size)),
    "options": lambda size: command("python train.py " + number("--o%d %d ", size), TORCH),
    "checkpoint options": lambda size: command("python train.py " + repeat("--checkpoint-dir ", size), TORCH),
    "ands in a command": lambda size: command("python a.py" + repeat(" && python train.py", size), TORCH),
    "semicolons": lambda size: command(repeat("; ", size), TORCH),
    "pipes and echoes": lambda size: command(repeat("echo a | ", size)),
    "backslashes": lambda size: command("echo " + "\\" * (size // 2)),
    "broken lines": lambda size: block("python train.py" + repeat(" \\\n", size // 3)),
    "backslashes and blanks": lambda size: command("echo \\" + " " * size + "x"),
    "blanks after an opening": lambda size: command("echo ${{" + " " * size),
    "openings and blanks": lambda size: command("echo " + repeat("${{ ", size)),
    "openings": lambda size: command("echo " + repeat("${{", size)),
    "a long expression": lambda size: command("echo ${{inputs." + "a" * size + "}}"),
    "a long path in an expression": lambda size: command("echo ${{" + repeat("inputs.", size) + "}}"),
    "expressions": lambda size: command("echo " + number("${{inputs.a%d}} ", size)),
    "sections": lambda size: command("echo " + repeat("$[[--x ${{inputs.x}}]] ", size)),
    "open sections": lambda size: command("echo " + repeat("$[[", size)),
    "single braces": lambda size: command("echo " + repeat("{inputs.", size)),
    "double quotes": lambda size: command("python " + '"' * (size // 2), TORCH),
    "single quotes": lambda size: command("python " + "'" * size, TORCH),
    "open quotes": lambda size: command("python train.py " + repeat("\"'", size), TORCH),
    "dollars": lambda size: command("python $" + repeat("$A", size), TORCH),
    "assignments": lambda size: command(number("A%d=1 ", size) + "python train.py", TORCH),
    "a long assignment": lambda size: command("A" * size + " python train.py", TORCH),
    "slashes": lambda size: command("/" * size + "python train.py", TORCH),
    "scripts": lambda size: command(number("python s%d.py; ", size), TORCH + "code: .\n"),
    "installs": lambda size: command(repeat("pip install ", size)),
    "packages": lambda size: command("pip install " + number("p%d ", size)),
    "package extras": lambda size: command("pip install a" + repeat("[a,", size)),
    "half secrets": lambda size: command("echo " + repeat("://a:", size)),
    "tokens": lambda size: command("export " + repeat("TOKEN_", size) + "=1"),
    "account keys": lambda size: command("echo " + repeat("AccountKey=aaaa", size)),
    "long hex": lambda size: command("export TOKEN=" + repeat("0a1b2c3d", size)),
    "program texts": lambda size: command("python -c '" + repeat("import os; ", size) + "'", TORCH),
    "redirections": lambda size: command("cat" + repeat(" <a >b", size)),
    "world sizes": lambda size: command("torchrun " + repeat("--nproc_per_node 2 ", size), TORCH),
    # YAML
    "empty lines": lambda size: job("\n" * size),
    "carriage returns": lambda size: job("\r\n" * (size // 2)),
    "lone carriage returns": lambda size: job("\r" * size),
    "one long line": lambda size: job("description: " + "x" * size + "\n"),
    "combining characters": lambda size: raw("command: e" + "\u0301" * (size // 2) + "\n"),
    "wide characters": lambda size: raw("nope: \u6f22" + "\u6f22" * (size // 3) + "\n"),
    "line separators": lambda size: raw("command: 'a" + "\u2028" * (size // 3) + "'\n"),
    "comments": lambda size: job(repeat("# a\n", size)),
    "number signs": lambda size: raw("command: echo " + "#" * size + "\n"),
    "number signs and blanks": lambda size: job(repeat("# ", size)),
    "suppressions": lambda size: job(repeat("# worldsize: ignore[WS203]\n", size)),
    "one long suppression": lambda size: {
        "job.yml": JOB + "command: echo # worldsize: ignore[" + number("WS2%03d, ", size) + "]\n"
    },
    "blanks in a suppression": lambda size: {
        "job.yml": JOB + "command: echo #" + " " * (size // 2) + "worldsize:" + " " * (size // 2) + "x\n"
    },
    "documents": lambda size: job(repeat("---\na: 1\n", size)),
    "anchors": lambda size: job("tags:\n" + number("  t%d: &a%d x\n", size)),
    "aliases": lambda size: job("tags:\n  a: &a x\n" + number("  t%d: *a\n", size)),
    "blanks after an anchor": lambda size: raw("command: &a" + " " * size + "echo\n"),
    "comments after an anchor": lambda size: raw("tags: &a" + repeat(" # x\n", size) + "  {a: b}\n"),
    "bare anchors": lambda size: job("tags: [" + number("&a%d , ", size) + "]\n"),
    "tags": lambda size: job("tags: [" + repeat("!!str a, ", size) + "]\n"),
    "merges": lambda size: job("b: &b {x: 1, y: 2}\ntags:\n" + number("  t%d: {<<: *b, x: 3}\n", size)),
    "merges of one": lambda size: job("b: &b {x: 1}\ntags: {<<: [" + repeat("*b, ", size) + "]}\n"),
    "a long key": lambda size: raw("? " + "k" * size + "\n: 1\n"),
    "keys": lambda size: job(number("key%d: 1\n", size)),
    "alike keys": lambda size: raw(number("commandd%d: 1\n", size)),
    "the same key": lambda size: raw(repeat("command: echo\n", size)),
    "odd keys": lambda size: raw("tags:\n" + number("  ? [a%d]\n  : 1\n", size)),
    "brackets": lambda size: raw("tags: " + "[" * size),
    "braces": lambda size: {"job.yml": JOB + "tags: " + repeat("{a: ", size)},
    "closed brackets": lambda size: raw("tags: [" + repeat("[], ", size) + "]\n"),
    "deep blocks": lambda size: {
        "job.yml": "\n".join(" " * depth + "a:" for depth in range(int((2 * size) ** 0.5)))
    },
    "deep dashes": lambda size: raw("tags:\n  " + repeat("- ", size)),
    "quotes in YAML": lambda size: raw("command: '" + "''" * (size // 2) + "'\n"),
    "escapes in YAML": lambda size: raw('command: "' + repeat("\\x41", size) + '"\n'),
    "folded text": lambda size: {"job.yml": JOB + "command: >\n" + repeat("  a ${{inputs.x}}\n", size)},
    "broken quotes": lambda size: raw('command: "' + repeat("a \\\n  ", size) + '"\n'),
    "underscores in a number": lambda size: job("priority: 1" + "_000" * (size // 4)),
    "a huge number": lambda size: job("limits: {timeout: " + "9" * size + "}\n"),
    "a huge exponent": lambda size: {"spec.yml": SPEC + "description: x\nseed: 1e" + "9" * size + "\n"},
    "a hexadecimal number": lambda size: job("priority: 0x" + "f" * size + "\n"),
    "a sexagesimal number": lambda size: raw("limits: {timeout: 1" + ":59" * (size // 3) + "}\n"),
    "a fraction": lambda size: raw("limits: {timeout: 1." + "9" * size + "}\n"),
    "numbers": lambda size: job("tags:\n" + number("  t%d: 1_000\n", size)),
    "dates": lambda size: job("tags:\n" + number("  t%d: 2024-01-31\n", size)),
    "a long date": lambda size: {
        "job.yml": JOB + "tags: {a: 2024-01-31 12:00:00." + "0" * size + "}\ncommand: echo\n"
    },
    "template braces": lambda size: {"job.yml": JOB + "command: '" + repeat("{{ x }} ", size) + "'\n"},
    # graphs
    "steps": lambda size: pipeline(number(f"  s%d: {STEP}\n", size)),
    "a chain of steps": lambda size: pipeline(chain(size)),
    "inputs": lambda size: job("inputs:\n" + number("  i%d: 1\n", size)),
    "outputs": lambda size: job("outputs:\n" + number("  o%d: {type: uri_folder}\n", size)),
    "pipeline inputs": lambda size: pipeline(f"  s: {STEP}\n", "inputs:\n" + number("  i%d: 1\n", size)),
    "unknown inputs": lambda size: pipeline(
        number("  s%d: {type: command, component: ./c.yml, inputs: {x%d: '${{parent.inputs.n%d}}'}}\n", size)
    )
    | {"c.yml": "type: command\nname: c\ncommand: echo\nenvironment: azureml:e:1\n"},
    "one step with many inputs": lambda size: pipeline(
        "  s:\n    type: command\n    component: ./c.yml\n    inputs:\n" + number("      x%d: 1\n", size // 2)
    )
    | {
        "c.yml": "type: command\nname: c\ncommand: echo\nenvironment: azureml:e:1\ninputs:\n"
        + number("  x%d: {type: string, enum: [a, b]}\n", size // 2)
    },
    "unknown steps": lambda size: pipeline(
        number("  s%d: {type: command, inputs: {x: '${{parent.jobs.t%d.outputs.y}}'}}\n", size)
    ),
    "variables": lambda size: job("environment_variables:\n" + number("  API_TOKEN%d: abc%ddefg\n", size)),
    "account keys in variables": lambda size: job(
        "environment_variables:\n" + number(f"  API_TOKEN%d: AccountKey={'aB3' * 29}%d==\n", size)
    ),
    "one cycle": lambda size: pipeline(chain(size) + "  z: {}\n"),
    "spec steps": lambda size: spec(
        number("  s%d: {command: python a.py, environment: azureml:e:1, compute: gpu}\n", size)
    ),
    "trained spec steps": lambda size: spec(number("  s%d: {uses: train_ddp, compute: gpu}\n", size)),
    "ten thousand trained spec steps": lambda size: spec(
        "".join(
            f"  s{index}: {{uses: train_ddp, compute: gpu, description: {'x' * (size // 10_000 - 60)}}}\n"
            for index in range(9_999)
        )
    ),
    "spec steps that work": lambda size: spec(
        number("  s%d: {command: python -c 1, environment: azureml:e:1, compute: gpu}\n", size)
    ),
    "spec steps that train": lambda size: {
        "spec.yml": SPEC.partition("  train:")[0]
        + "  shard: {uses: shard_data, compute: gpu}\n"
        + number("  s%d: {uses: train_ddp, compute: gpu}\n", size)
    },
    "spec values": lambda size: spec(
        "  s:\n    command: python -c 1\n    environment: azureml:e:1\n    compute: gpu\n    with:\n"
        + number("      v%d: 1\n", size)
    ),
    "a long spec command": lambda size: {
        "spec.yml": SPEC.replace("print('hello')\"", "1\" " + repeat("${{plan.learning_rate}} ", size))
    },
    "a long spec description": lambda size: {
        "spec.yml": SPEC + "description: " + quoted(repeat("a: '\u00e4\" ", size)) + "\n"
    },
    "spec computes": lambda size: {
        "spec.yml": SPEC.replace("steps:\n", number("  c%d: {target: azureml:c%d}\n", size) + "steps:\n")
    },
    "unknown spec keys": lambda size: spec(number("key%d: 1\n", size)),
    "wrong spec steps": lambda size: spec(number("  s%d: {comand: 1}\n", size)),
    "settings": lambda size: {
        **command("echo"),
        "worldsize.yml": "compute:\n" + number("  c%d: {instance_type: Standard_NC24s_v3}\n", size),
    },
    "ignored rules": lambda size: {
        **command("echo"),
        "worldsize.yml": "ignore:\n" + number("  - WS9x%d\n", size),
    },
    "severities": lambda size: {
        **command("echo"),
        "worldsize.yml": "severity:\n" + number("  WS9x%d: errors\n", size),
    },
    "assets": lambda size: {
        **command("echo"),
        "worldsize.yml": "assets:\n" + number("  azureml:a%d: ./d%d\n", size),
    },
    "wrong computes": lambda size: {
        **command("echo"),
        "worldsize.yml": "compute:\n" + number("  c%d: {instance_typ: x, tier: y}\n", size),
    },
    # schedules
    "a long cron": lambda size: schedule(repeat("1,", size) + "1 * * * *"),
    "blanks in a cron": lambda size: schedule("0 3" + " " * size + "* * 1"),
    "cron fields": lambda size: schedule(repeat("* ", size)),
    # scripts and other files
    "a spec's script": lambda size: spec_script("import torch\n" + repeat("torch.save(m, 'a')\n", size)),
    **{
        name: lambda size, text=text: script("import torch\n" + text(size))  # type: ignore[misc]
        for name, text in SCRIPTS.items()
    },
    "one script started again and again": lambda size: started(
        number("python train.py --a %d; ", min(size, 9_000)),
        {"train.py": "import torch\n" + repeat("torch.save(m, 'a')\n", size)},
    ),
    "small scripts": lambda size: started(
        "".join(f"python s{index}.py; " for index in range(100)),
        {f"s{index}.py": repeat("import torch\ntorch.save(1, 'a')\n", size // 100) for index in range(100)},
    ),
    "products": lambda size: spec_script(repeat("x = " + "lr * size * " * 200 + "1\n", size)),
    "newlines in a script": lambda size: script("\n" * size),
    "comments in a script": lambda size: script("import torch\n" + "#" * size),
    "a NUL in a script": lambda size: script("x = 1\0" + "\0" * size),
    "deep JSON": lambda size: deepspeed("[" * size),
    "deep JSON objects": lambda size: deepspeed(repeat('{"a":', size)),
    "JSON keys": lambda size: deepspeed("{" + number('"k%d": 1, ', size) + '"z": 1}'),
    "JSON objects": lambda size: deepspeed('{"optimizer": {' + number('"b%d": {}, ', size) + '"z": 1}}'),
    "misspelt JSON keys": lambda size: deepspeed("{" + number('"train_batch_siz%d": 1, ', size) + '"z": 1}'),
    "the same JSON key": lambda size: deepspeed("{" + repeat('"zero_optimization": {}, ', size) + '"z": 1}'),
    "a long JSON number": lambda size: deepspeed('{"train_batch_size": ' + "9" * size + "}"),
    "a long JSON string": lambda size: deepspeed('{"a": "' + "a" * size + '"}'),
    "an open JSON string": lambda size: deepspeed('{"a": "' + "a" * size),
    "JSON comments": lambda size: deepspeed("{" + repeat("/* ", size)),
    "JSON blanks": lambda size: deepspeed("{" + " " * size + "x"),
    "JSON words": lambda size: deepspeed("{" + repeat("a ", size)),
    "requirements": lambda size: conda("dependencies:\n- pip:\n" + number("  - p%d\n", size)),
    "a long requirement": lambda size: conda("dependencies:\n- pip:\n  - a" + "." * size + "\n"),
    "requirement extras": lambda size: conda("dependencies:\n- pip:\n  - 'a[" + repeat("a, ", size) + "'\n"),
    "ignore lines": lambda size: ignored(repeat("*a*b\n", size)),
    "stars in an ignore file": lambda size: ignored(repeat("*a" * 400 + "b\n", size)),
    "one ignore line of stars": lambda size: ignored(repeat("*a", size)),
    "ignore folders": lambda size: ignored(repeat("**/a/**/b\n", size)),
    "numbered ignore lines": lambda size: ignored(number("*a%d*b\n", size)),
    "numbered ignore names": lambda size: ignored(number("a%d\n", size)),
    "numbered ignore folders": lambda size: ignored(number("**/x%d/**/y\n", size)),
    "numbered paths in an ignore file": lambda size: ignored(number("/x%d/*a*.c\n", size)),
    "numbered negated lines": lambda size: ignored(number("*a%d*x\n!*%d*.b\n", size)),
    "numbered questions": lambda size: ignored(number("?%d*a*?c\n", size)),
    "numbered classes": lambda size: ignored(number("[a-z]%d*[!a-y]\n", size)),
    "ranges in an ignore file": lambda size: ignored("[" + number("a-z%d", size) + "]*a*z\n"),
    "different classes": lambda size: ignored(
        "".join(f"*[a-{chr(256 + at)}]*z\n" for at in range(min(size // 11, 40_000)))
    ),
    "different characters": lambda size: ignored(
        "".join(f"*{chr(256 + at)}*z\n" for at in range(min(size // 5, 50_000)))
    ),
    "open classes": lambda size: ignored("[" * size),
    "closed classes": lambda size: ignored(repeat("[!]", size)),
    "slashes in an ignore file": lambda size: ignored("/" * size),
    "backslashes in an ignore file": lambda size: ignored(repeat("\\a", size)),
    "letters and stars": lambda size: ignored(
        "".join(f"{at:b}\n" for at in range(size // 15)).replace("0", "a").replace("1", "*")
    ),
}  # fmt: skip


def write(files: Files, folder: Path) -> None:
    """Write the files of a shape."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")

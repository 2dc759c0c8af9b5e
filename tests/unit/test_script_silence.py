"""Training scripts that are right, or that a framework makes right: the rules of WS9 have nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

JOB = """$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: {command}
code: ./src
environment: azureml:training:7
compute: azureml:gpu-cluster
distribution: {{type: pytorch, process_count_per_instance: 4}}
resources: {{instance_count: 2}}
limits: {{timeout: 3600}}
"""
LOOP = (
    "for epoch in range(3):\n    for batch in loader:\n        loss = model(batch)\n        loss.backward()\n"
)
SCRIPTS = {
    "accelerate": "import torch\n"
    "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    "loader = torch.utils.data.DataLoader([], shuffle=True)\n"
    "model, loader = accelerator.prepare(torch.nn.Linear(1, 1), loader)\n"
    + LOOP
    + "torch.save(model, 'a')\n",
    "lightning": "import torch\nimport lightning as L\ntrainer = L.Trainer(devices=4, num_nodes=2)\n"
    "trainer.fit(torch.nn.Linear(1, 1))\ntorch.save({}, 'a')\n",
    "transformers": "import torch\nfrom transformers import Trainer\n"
    "Trainer(model=torch.nn.Linear(1, 1)).train()\n"
    "model.save_pretrained('out')\n",
    "deepspeed": "import deepspeed\nimport torch\n"
    "engine, *_ = deepspeed.initialize(model=torch.nn.Linear(1, 1))\n"
    "loss = engine(1)\nengine.backward(loss)\ntorch.save({}, 'a')\n",
    "guards": "import os\nimport sys\nimport mlflow\nimport torch\ntorch.distributed.init_process_group()\n"
    "RANK = int(os.environ['RANK'])\nmain = RANK == 0\n"
    "def log(x):\n    if not main:\n        return\n    mlflow.log_metric('x', x)\n"
    "class Writer:\n    def __init__(self):\n        torch.save({}, 'a')\n"
    "writer = Writer() if main else None\nlog(1)\nmain and torch.save({}, 'b')\n"
    "torch.save({}, f'c{RANK}')\nif RANK:\n    sys.exit()\ntorch.save({}, 'd')\n",
    "evaluation": "import os\nimport torch\nprint(torch.load('a'), os.environ['RANK'])\n",
    "fsdp": "import os\nimport torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n"
    "torch.distributed.init_process_group()\ntorch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
    "model = FSDP(torch.nn.Linear(1, 1).cuda())\nstate = model.state_dict()\ntorch.save(state, 'a')\n",
    "star import": "from helpers import *\nprint(os.environ)\nif rank == 0:\n    print()\n",
    "late import": "def main():\n    import os\n    return os.environ\n\ntry:\n    import numpy as np\n"
    "except ImportError:\n    np = None\nprint(np and np.zeros(1))\n",
    "not parsable": "print 'hello'\n",
    "empty": "",
    "other encoding": "# \udcff\n",
}


def found(folder: Path, script: str, command: str = "python train.py") -> list[str]:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text(script, encoding="utf-8", errors="surrogateescape")
    (folder / "job.yml").write_text(JOB.format(command=command), encoding="utf-8")
    report = worldsize.check(folder / "job.yml")
    return [one.message for one in report.diagnostics if one.code.startswith("WS9") or one.code == "WS000"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_is_said_of_a_script_that_works(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, SCRIPTS[name]) == []


@pytest.mark.parametrize(
    "command",
    [
        "cd src && python train.py",
        "python ../src/train.py",
        "bash run.sh train.py",
        "python -c 'import train'",
    ],
)
def test_a_script_that_is_not_certain_is_not_read(command: str, tmp_path: Path) -> None:
    assert found(tmp_path, "os.environ\n", command) == []


@pytest.mark.parametrize(
    "command", ["python -u train.py", "python -m train", "cat x; python3 ./train.py --a b"]
)
def test_the_script_is_found_in_many_commands(command: str, tmp_path: Path) -> None:
    assert found(tmp_path, "os.environ\n", command) == ["`os` is used here, but nothing imports it"]


def test_a_script_of_many_steps_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from worldsize.scripts import program

    parsed: list[str] = []
    real = program.parse_module
    monkeypatch.setattr(program, "parse_module", lambda source: parsed.append(source.path) or real(source))
    jobs = "".join(f"  s{n}:\n    component: ./c.yml\n    compute: azureml:c\n" for n in range(50))
    (tmp_path / "pipeline.yml").write_text(
        "$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json\n"
        "type: pipeline\njobs:\n" + jobs
    )
    component = JOB.format(command="python train.py").replace("commandJob", "commandComponent")
    (tmp_path / "c.yml").write_text("name: c\nversion: 1\ntype: command\n" + component.split("compute:")[0])
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("import helper\nos.environ\n")
    (tmp_path / "src" / "helper.py").write_text("import train\n")
    report = worldsize.check(tmp_path)
    assert [one.code for one in report.diagnostics if one.code.startswith("WS9")] == ["WS930"]
    assert len(parsed) == 2


def test_scripts_of_built_in_components_are_not_parsed_for_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    from worldsize.scripts import program

    parsed: list[str] = []
    real = program.parse_module
    monkeypatch.setattr(program, "parse_module", lambda source: parsed.append(source.path) or real(source))
    pipelines = Path(__file__).parents[2] / "pipelines"
    assert worldsize.check([pipelines / "digits_ddp.yml", pipelines / "diabetes_ddp.yml"]).exit_code == 0
    assert not parsed
    worldsize.check(pipelines.parent / "components" / "train_ddp" / "component.yml")
    assert len(parsed) > 10, "a component is checked with its scripts"

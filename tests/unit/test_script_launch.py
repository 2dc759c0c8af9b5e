"""A script against its GPUs and its distribution, in the order of what costs most."""

# ruff: noqa: E501 - a script in one line

from __future__ import annotations

from pathlib import Path

import pytest

import worldsize

JOB = """$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: {command}
code: ./src
environment: azureml:training:7
compute: azureml:gpu-cluster
limits: {{timeout: 3600}}
{more}
"""
FOUR = "Standard_NC96ads_A100_v4"
INIT = "import torch\nimport torch.distributed as dist\n"
TRAIN = "loss = torch.nn.Linear(1, 1).cuda()(torch.ones(1, 1).cuda())\nloss.backward()\n"
ONE = "import torch\n" + TRAIN
KERAS = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.fit([1], [1])\n"
RANK = INIT + "dist.init_process_group('nccl')\nrank = dist.get_rank()\n"
ENV = "import os\n" + INIT
HVD = "import horovod.torch as hvd\nhvd.init()\n"
DDP = RANK + "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1).cuda())\n"
HVD_PINNED = HVD + "import torch\ntorch.cuda.set_device(hvd.local_rank())\n"
TRAINER = "import lightning as L\nt = L.Trainer(accelerator='gpu', devices=2)\n"
FRAMES = "import pandas as pd\nprint(pd.read_csv('x.csv'))\n"
SPAWNED = (
    INIT
    + "import torch.multiprocessing as mp\ndef run(r):\n    dist.init_process_group('nccl', rank=r)\nmp.spawn(run, nprocs=4)\n"
)
HIDDEN = "environment_variables: {CUDA_VISIBLE_DEVICES: '0,1'}\n"
TF = "import tensorflow as tf\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
MPI_RANK = "import os\nrank = int(os.environ.get('OMPI_COMM_WORLD_RANK', 0))\n"
SET_UP = (
    ENV + "os.environ['RANK'] = os.environ['OMPI_COMM_WORLD_RANK']\n"
    "os.environ['WORLD_SIZE'] = os.environ['OMPI_COMM_WORLD_SIZE']\n"
    "os.environ['MASTER_ADDR'] = os.environ['AZ_BATCHAI_MPI_MASTER_NODE']\nos.environ['MASTER_PORT'] = '6105'\n"
    "dist.init_process_group('nccl')\n"
)


def more(kind: str = "", processes: int | None = None, instances: int = 1, extra: str = "") -> str:
    count = f", process_count_per_instance: {processes}" if processes else ""
    distribution = f"distribution: {{type: {kind}{count}}}\n" if kind else ""
    return f"{distribution}resources: {{instance_count: {instances}}}\n{extra}"


FAULTS = {
    # GPUs that nobody uses
    "no distribution": (ONE, "python train.py", more(), "WS204"),
    "no distribution, keras": (KERAS, "python train.py", more(), "WS204"),
    "no count": (RANK + TRAIN, "python train.py", more("pytorch"), "WS204"),
    "count 1": (ONE + "torch.distributed.init_process_group()\n", "python train.py", more("pytorch", 1), "WS204"),
    "launcher with few": (ONE, "torchrun --nproc-per-node=2 train.py", more(), "WS204"),
    "deepspeed with few": (ONE, "deepspeed --num_gpus 1 train.py", more(), "WS204"),
    "accelerate with few": (ONE, "accelerate launch --num_processes 2 train.py", more(), "WS204"),
    "one of DDP": (DDP, "python train.py", more("pytorch", 1), "WS204"),
    "none given of DDP": (DDP, "python train.py", more("pytorch"), "WS204"),
    "one of Horovod": (HVD_PINNED, "python train.py", more("mpi", 1), "WS204"),
    "devices of Lightning": (TRAINER, "python train.py", more(), "WS204"),
    "list of Lightning": (TRAINER.replace("=2", "=[0]"), "python train.py", more(), "WS204"),
    "hidden by the job": (ONE, "torchrun --nproc_per_node 2 train.py", more(extra=HIDDEN), "WS204"),
    "hidden by the command": (ONE, "export CUDA_VISIBLE_DEVICES=0 && python train.py", more(), "WS204"),
    "hidden for one": (ONE, "CUDA_VISIBLE_DEVICES=0 python train.py", more(), "WS204"),
    "frames": (FRAMES, "pip install tqdm && python train.py", more(), "WS244"),
    # more processes than GPUs
    "hidden from torchrun": (ONE, "torchrun --nproc_per_node 4 train.py", more(extra=HIDDEN), "WS203"),
    "hidden from the job": (DDP, "python train.py", more("pytorch", 4, 1, HIDDEN), "WS203"),
    "absent GPUs": (ONE, "deepspeed --include localhost:4,5,6,7 train.py", more(), "WS203"),
    "too many GPUs": (ONE, "deepspeed --include=localhost:0,1,2,3,4 train.py", more(), "WS203"),
    "launcher with many": (ONE, "torchrun --nproc_per_node 8 train.py", more(), "WS203"),
    "accelerate with many": (ONE, "accelerate launch --num_processes=8 train.py", more(), "WS203"),
    # nodes
    "nodes": (ONE, "torchrun --nnodes=2 --nproc_per_node 4 train.py", more(), "WS243"),
    "rank on the node": (ONE, "torchrun --nnodes 2 --nproc_per_node 4 --node_rank=$LOCAL_RANK --master_addr $MASTER_ADDR train.py", more("pytorch", 1, 2), "WS243"),
    "one machine of accelerate": (ONE, "accelerate launch --num_processes 4 train.py", more("pytorch", 1, 2), "WS243"),
    "no rank of accelerate": (ONE, "accelerate launch --num_machines 2 --num_processes 8 --main_process_ip $MASTER_ADDR train.py", more("pytorch", 1, 2), "WS243"),
    "deepspeed without hosts": (ONE, "deepspeed --num_gpus 4 train.py", more("pytorch", 1, 2), "WS243"),
    "rank of the node": (ENV + "dist.init_process_group('nccl', rank=int(os.environ['NODE_RANK']))\n", "python train.py", more("pytorch", 4, 2), "WS944"),
    "rank on the instance": (ENV + "r = int(os.environ['LOCAL_RANK'])\ndist.init_process_group('nccl', rank=r)\n", "python train.py", more("pytorch", 4, 2), "WS944"),
    "rank set": (ENV + "os.environ['RANK'] = os.environ['NODE_RANK']\n", "python train.py", more("pytorch", 4, 2), "WS944"),
    "spawned by each": (SPAWNED, "python train.py", more("pytorch", 4, 1), "WS945"),
    "device of Horovod": (HVD + "import tensorflow as tf\ng = tf.config.list_physical_devices('GPU')\ntf.config.set_visible_devices(g[hvd.rank()], 'GPU')\n", "python train.py", more("mpi", 4, 2), "WS909"),
    "nodes of deepspeed": (ONE, "deepspeed --num_nodes 4 --num_gpus 4 train.py", more("pytorch", 1, 2), "WS243"),
    "in a shell": (ONE, 'bash -c "torchrun --nnodes 3 --nproc_per_node 4 train.py"', more("pytorch", 1, 2), "WS243"),
    "standalone": (ONE, "torchrun --standalone --nproc_per_node 4 train.py", more("pytorch", 1, 2), "WS243"),
    "no nodes": (ONE, "python -m torch.distributed.run --nproc_per_node 4 train.py", more("pytorch", 1, 2), "WS243"),
    "no node rank": (ONE, "torchrun --nnodes 2 --nproc_per_node 4 train.py", more("pytorch", 1, 2), "WS243"),
    "squared": (ONE, "torchrun --nproc_per_node 4 train.py", more("pytorch", 4), "WS217"),
    # distribution
    "env under mpi": (INIT + "dist.init_process_group('nccl')\n", "python train.py", more("mpi", 4), "WS914"),
    "rank under mpi": (ENV + "print(os.environ['RANK'])\n", "python train.py", more("mpi", 4), "WS914"),
    "getenv under mpi": (ENV + "r = int(os.getenv('LOCAL_RANK', 0))\n", "python train.py", more("mpi", 4), "WS914"),
    "ompi under pytorch": (MPI_RANK, "python train.py", more("pytorch", 4), "WS914"),
    "horovod under pytorch": (HVD, "python train.py", more("pytorch", 4), "WS914"),
    "mpi4py under pytorch": ("from mpi4py import MPI\nMPI.COMM_WORLD\n", "python train.py", more("pytorch", 4), "WS914"),
    "tensorflow under pytorch": (TF, "python train.py", more("pytorch", 4), "WS914"),
    "tf_config under mpi": ("import os\nprint(os.environ['TF_CONFIG'])\n", "python train.py", more("mpi", 4), "WS914"),
    "nothing set": (INIT + "dist.init_process_group('nccl')\n", "python train.py", more(), "WS914"),
    # what is the same in every process
    "address": (ENV + "os.environ['MASTER_ADDR'] = '10.0.0.4'\n", "python train.py", more("pytorch", 4, 2), "WS906"),
    "address under update": (ENV + "os.environ.update({'MASTER_ADDR': 'localhost'})\n", "python train.py", more("pytorch", 4, 2), "WS906"),
    "method": (INIT + "dist.init_process_group('nccl', init_method='tcp://10.0.0.4:23456', rank=r, world_size=8)\n", "python train.py", more("pytorch", 4, 2), "WS906"),
    "default of a method": (INIT + "import argparse\np = argparse.ArgumentParser()\np.add_argument('--dist-url', default='tcp://127.0.0.1:2')\nargs = p.parse_args()\ndist.init_process_group('nccl', init_method=args.dist_url)\n", "python train.py", more("pytorch", 4, 2), "WS906"),
    "rank": (ENV + "os.environ['RANK'] = '0'\n", "python train.py", more("pytorch", 4), "WS906"),
    "rank of a call": (INIT + "dist.init_process_group('nccl', rank=0, world_size=4)\n", "python train.py", more("pytorch", 4), "WS906"),
    "variable of the job": (ENV, "python train.py", more("pytorch", 4, 1, "environment_variables: {WORLD_SIZE: '8'}\n"), "WS906"),
    "variable of the command": (ENV, "export MASTER_ADDR=localhost && python train.py", more("pytorch", 4, 2), "WS906"),
    # global rank
    "set_device": (RANK + "torch.cuda.set_device(rank)\n", "python train.py", more("pytorch", 4, 2), "WS909"),
    "name of a device": (RANK + "x = torch.ones(1).to(f'cuda:{rank}')\n", "python train.py", more("pytorch", 4, 2), "WS909"),
    "device_ids": (RANK + "m = torch.nn.parallel.DistributedDataParallel(m, device_ids=[rank])\n", "python train.py", more("pytorch", 4, 2), "WS909"),
    "of the environment": (ENV + "dist.init_process_group()\ntorch.cuda.set_device(int(os.environ['RANK']))\n", "python train.py", more("pytorch", 4, 2), "WS909"),
    "of horovod": (HVD + "import torch\ntorch.cuda.set_device(hvd.rank())\n", "python train.py", more("mpi", 4, 2), "WS909"),
    "through a function": (RANK + "def run(gpu):\n    torch.cuda.set_device(gpu)\nrun(rank)\n", "python train.py", more("pytorch", 4, 2), "WS909"),
    "an attribute": (RANK + "args = A()\nargs.gpu = rank\ntorch.cuda.set_device(args.gpu)\n", "python train.py", more("pytorch", 4, 2), "WS909"),
}  # fmt: skip
FINE = {
    "data parallel": (ONE + "torch.nn.DataParallel(1)\n", "python train.py", more()),
    "device map": ("import transformers\n" + ONE, "python train.py", more()),
    "mirrored": (KERAS + "tf.distribute.MirroredStrategy()\n", "python train.py", more()),
    "spawn": (ONE + "import torch.multiprocessing as mp\nmp.spawn(print)\n", "python train.py", more()),
    "no training": ("import torch\nprint(torch.ones(1).cuda())\n", "python train.py", more()),
    "all chosen by hand": (ONE, "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node 4 train.py", more()),
    "each chosen by hand": (ONE, "CUDA_VISIBLE_DEVICES=0 python train.py & CUDA_VISIBLE_DEVICES=1 python train.py", more()),
    "one of four with a model on several": (DDP + "other = model.to('cuda:1')\n", "python train.py", more("pytorch", 1)),
    "all devices of Lightning": (TRAINER.replace("devices=2", "devices=-1"), "python train.py", more()),
    "Lightning on the CPU": (TRAINER.replace("'gpu'", "'cpu'"), "python train.py", more()),
    "deepspeed with hosts": (ONE, "deepspeed --hostfile hosts train.py", more("pytorch", 1, 2)),
    "deepspeed on some": (ONE, "deepspeed --include localhost:0,1,2,3 train.py", more()),
    "accelerate with a file": (ONE, "accelerate launch --config_file c.yaml train.py", more("pytorch", 1, 2)),
    "boosting": ("import pandas\nimport xgboost\n", "python train.py", more()),
    "frames on the GPU": (FRAMES, "python -m cudf.pandas train.py", more()),
    "frames and another program": (FRAMES, "python train.py && ./simulate", more()),
    "frames and training": (FRAMES + "import torch\n", "python train.py", more()),
    "local rank of its own": (SPAWNED, "python train.py", more("pytorch", 1, 2)),
    "unknown package": ("import mystery\n" + ONE, "python train.py", more()),
    "launcher": (ONE, "torchrun --nproc_per_node 4 train.py", more()),
    "launcher, all": (ONE, "torchrun --nproc_per_node gpu train.py", more("pytorch", 1)),
    "launcher with a variable": (ONE, "torchrun $OPTIONS train.py", more("pytorch", 1, 2)),
    "count of a variable": (ONE, "torchrun --nproc_per_node $GPUS train.py", more()),
    "elastic": (ONE, "torchrun --nnodes 1:4 --nproc_per_node 4 --rdzv_endpoint $MASTER_ADDR:1 train.py", more("pytorch", 1, 2)),
    "nodes": (ONE, "torchrun --nnodes 2 --nproc_per_node 4 --node_rank $NODE_RANK --master_addr $MASTER_ADDR train.py", more("pytorch", 1, 2)),
    "nodes of a variable": (ONE, "torchrun --nnodes $NODES --nproc_per_node 4 --node_rank $NODE_RANK train.py", more("pytorch", 1, 2)),
    "accelerate": (ONE, "accelerate launch --num_machines 2 --num_processes 8 --machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR train.py", more("pytorch", 1, 2)),
    "set up under mpi": (SET_UP, "python train.py", more("mpi", 4)),
    "rank given": (INIT + "dist.init_process_group('nccl', rank=r, world_size=w)\n", "python train.py", more("mpi", 4)),
    "backend mpi": (INIT + "dist.init_process_group('mpi')\n", "python train.py", more("mpi", 4)),
    "only if asked": (INIT + "if args.distributed:\n    dist.init_process_group('nccl')\n", "python train.py", more()),
    "only if set": (ENV + "if 'RANK' in os.environ:\n    print(os.environ['RANK'])\n", "python train.py", more("mpi", 4)),
    "both": (MPI_RANK + "rank = os.environ.get('RANK', rank)\n", "python train.py", more("pytorch", 4)),
    "variables of the job": (ENV + "print(os.environ['WORLD_SIZE'])\n", "python train.py", more(extra="environment_variables: {WORLD_SIZE: '1'}\n")),
    "torchrun sets them": (INIT + "dist.init_process_group('nccl')\n", "torchrun --nproc_per_node 4 train.py", more()),
    "horovodrun": (HVD, "horovodrun -np 4 python train.py", more()),
    "horovod under mpi": (HVD, "python train.py", more("mpi", 4)),
    "one process of horovod": (HVD, "python train.py", more()),
    "deepspeed finds mpi": ("import deepspeed\ndeepspeed.init_distributed()\n", "python train.py", more("mpi", 4)),
    "local rank": (RANK + "torch.cuda.set_device(rank % torch.cuda.device_count())\n", "python train.py", more("pytorch", 4, 2)),
    "one instance": (RANK + "torch.cuda.set_device(rank)\n", "python train.py", more("pytorch", 4)),
    "local rank set later": (RANK + "rank = 0\ntorch.cuda.set_device(rank)\n", "python train.py", more("pytorch", 4, 2)),
    "spawned": (INIT + "def run(rank):\n    torch.cuda.set_device(rank)\ntorch.multiprocessing.spawn(run)\n", "python train.py", more("pytorch", 4, 2)),
    "right number": (ENV, "python train.py", more("pytorch", 4, 1, "environment_variables: {WORLD_SIZE: '4'}\n")),
    "address of a variable": (ENV, "MASTER_ADDR=$AZ_BATCH_MASTER_NODE python train.py", more("pytorch", 4, 2)),
    "address on one instance": (ENV + "os.environ['MASTER_ADDR'] = 'localhost'\n", "python train.py", more("pytorch", 4)),
    "given method": (INIT + "dist.init_process_group('nccl', init_method=args.dist_url)\n", "python train.py --dist_url $URL", more("pytorch", 4, 2)),
    "print": (RANK + "print(f'rank {rank}')\n", "python train.py", more("pytorch", 4, 2)),
}  # fmt: skip
CODES = (
    "WS000",
    "WS203",
    "WS204",
    "WS217",
    "WS222",
    "WS243",
    "WS244",
    "WS906",
    "WS909",
    "WS914",
    "WS944",
    "WS945",
)


ON_CPU = {
    "call": ("dist.init_process_group('nccl')\n", ["WS222"]),
    "keyword": ("dist.init_process_group(backend='NCCL')\n", ["WS222"]),
    "constant": ("BACKEND = 'nccl'\ndist.init_process_group(BACKEND)\n", ["WS222"]),
    "default": ("import argparse\np = argparse.ArgumentParser()\np.add_argument('--backend', default='nccl')\na = p.parse_args()\ndist.init_process_group(a.backend)\n", ["WS222"]),
    "gloo": ("dist.init_process_group('gloo')\n", []),
    "asks": ("dist.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')\n", []),
}  # fmt: skip


def check(folder: Path, script: str, command: str, more: str, size: str = FOUR) -> list[str]:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text(script)
    (folder / "job.yml").write_text(JOB.format(command=command, more=more))
    (folder / "worldsize.yml").write_text(f"compute:\n  gpu-cluster: {{instance_type: {size}}}\n")
    return [one.code for one in worldsize.check(folder).diagnostics if one.code in CODES]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_launch_is_found(name: str, tmp_path: Path) -> None:
    script, command, settings, expected = FAULTS[name]
    assert check(tmp_path, script, command, settings) == [expected]


@pytest.mark.parametrize("name", FINE)
def test_a_launch_that_is_right_is_not_reported(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, *FINE[name]) == []


@pytest.mark.parametrize("name", ON_CPU)
def test_nccl_on_cpus_is_found_through_names_and_defaults(name: str, tmp_path: Path) -> None:
    script, expected = ON_CPU[name]
    assert (
        check(tmp_path, INIT + script, "python train.py", more("pytorch", 4), "Standard_D16s_v5") == expected
    )

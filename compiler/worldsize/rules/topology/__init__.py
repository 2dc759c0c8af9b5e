"""WS2: VM sizes, processes, workers, instances."""

from __future__ import annotations

from worldsize.rules.rule import Entry

RULES = (
    Entry(
        "WS201",
        "vm-size-unknown",
        on=(
            "Compute",
            "Job",
        ),
    ),
    Entry(
        "WS202",
        "vm-size-retired",
        on=(
            "Compute",
            "Job",
        ),
    ),
    Entry("WS203", "processes-exceed-gpus", on=("Job",), when="native"),
    Entry("WS204", "processes-below-gpus", on=("Job",), when="native"),
    Entry("WS205", "process-count-unknown"),
    Entry("WS206", "processes-without-distribution"),
    Entry("WS207", "tensorflow-one-process"),
    Entry("WS208", "worker-count-disagrees", on=("Job",), when="native"),
    Entry("WS209", "instance-count-exceeds-max", on=("Job",), when="native"),
    Entry(
        "WS210",
        "vm-size-retiring",
        on=(
            "Compute",
            "Job",
        ),
    ),
    Entry("WS211", "compute-conflict"),
    Entry("WS212", "workers-below-instances", on=("Job",), when="native"),
    Entry(
        "WS213",
        "count-not-positive",
        on=(
            "Component",
            "Step",
        ),
    ),
    Entry("WS214", "count-from-wrong-input", on=("Job",)),
    Entry("WS215", "max-instances-below-count", on=("Job",)),
    Entry("WS216", "mpirun-in-mpi-job", on=("Job",)),
    Entry("WS217", "launcher-inside-launcher", on=("Job",)),
    Entry("WS218", "instances-without-distribution", on=("Job",)),
    Entry("WS219", "parameter-servers-unused", on=("Job",)),
    Entry("WS220", "parameter-servers-share-instances", on=("Job",)),
    Entry("WS221", "mpi-image-without-mpi", on=("Job",)),
    Entry("WS222", "nccl-on-cpu", on=("Job",)),
    Entry("WS223", "infiniband-disabled", on=("Job",)),
    Entry("WS224", "instances-without-infiniband", on=("Job",)),
    Entry("WS225", "vm-size-without-growth", on=("Compute",)),
    Entry(
        "WS226",
        "shm-size-invalid",
        on=(
            "Component",
            "Step",
        ),
    ),
    Entry("WS227", "shm-size-small", on=("Job",)),
    Entry("WS228", "ranks-share-file", on=("Job",)),
    Entry("WS230", "parallelism-product"),
    Entry("WS231", "degree-does-not-divide", on=("Job",), when="native"),
    Entry("WS232", "tensor-degree-does-not-divide-model"),
    Entry("WS233", "pipeline-degree-does-not-divide-layers"),
    Entry("WS234", "tensor-parallel-across-instances", on=("Job",), when="native"),
    Entry("WS235", "model-not-splittable"),
    Entry("WS236", "strategy-contradicts-degrees"),
    Entry("WS237", "pipeline-bubble"),
    Entry("WS238", "model-parallelism-unsupported"),
    Entry("WS239", "strategy-option-refused"),
    Entry("WS240", "parameter-servers-missing"),
    Entry("WS241", "heads-do-not-divide-width"),
    Entry("WS242", "option-without-effect"),
    Entry("WS270", "gpu-without-kernels", on=("Job",), when="native"),
    Entry("WS271", "cpu-build-on-gpu-size", on=("Job",), when="native"),
    Entry("WS272", "cuda-driver-too-old", on=("Job",), when="native"),
    Entry("WS273", "image-for-other-processor", on=("Job",), when="native"),
    Entry("WS250", "distribution-field-of-other-type"),
)

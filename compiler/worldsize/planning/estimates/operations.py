"""What a GPU computes and moves for one micro-batch, floating-point operations and bytes, and its seconds."""

from __future__ import annotations

from msgspec import Struct

from worldsize.planning.estimates.constants import Constants
from worldsize.planning.estimates.model import Cluster, Training
from worldsize.spec.workload import Convolutional, Transformer, Workload

BACKWARD = 2.0  # backward passes cost twice the forward one: a product for the input, one for the weight
_FLOPS_PER_ACTIVATION_BYTE = (
    100.0  # torchvision's ResNets 91 to 119, Inception-V3 154 (fp32, batch normalisation)
)
_MATCH = 0.02  # a count of parameters this near to a formula's is taken to be that


class Operations(Struct, frozen=True):
    """One micro-batch on one GPU, forward, backward and recomputation together."""

    matmul_flops: float = 0.0
    head_flops: float = 0.0  # the product with the vocabulary, in 16 bits under fp8
    attention_flops: float = 0.0
    convolution_flops: float = 0.0
    bytes: float = 0.0
    layers: float = 0.0  # passes through a layer, as forward passes
    tokens: float = 0.0


def count_operations(
    workload: Workload, training: Training, cluster: Cluster, constants: Constants
) -> Operations:
    """Count what one GPU does for one micro-batch."""
    if isinstance(workload, Convolutional):
        return _count_convolutional(workload, training, cluster, constants)
    return _count_transformer(workload, training, cluster, constants)


def _count_convolutional(
    workload: Convolutional, training: Training, cluster: Cluster, constants: Constants
) -> Operations:
    samples, passes = training.micro_batch, 1 + BACKWARD + constants.recomputed_share[training.recomputation]
    kind = "half" if training.number_bytes == 2 else "full"
    if cluster.gpu.architecture in ("kepler", "pascal"):
        kind = "pascal"
    touches = constants.convolution_touches[kind]
    size = workload.activation_bytes
    if size is None:
        size = workload.forward_flops / _FLOPS_PER_ACTIVATION_BYTE
    size *= training.number_bytes / 4
    return Operations(
        convolution_flops=samples * passes * workload.forward_flops,
        bytes=samples * size * touches * passes / (1 + BACKWARD),
        tokens=samples,
    )


def _count_transformer(
    workload: Transformer, training: Training, cluster: Cluster, constants: Constants
) -> Operations:
    """Products with weights, attention, what lies between them, and the head over the vocabulary.

    FLOPs a token: 2 for each weight, and 4 · sequence length · width a layer for attention, as if it had no
    mask (Narayanan et al. 2021, arXiv:2104.04473, appendix). The head is not computed again.
    """
    tokens = float(training.micro_batch * workload.sequence_length)
    passes = 1 + BACKWARD + constants.recomputed_share[training.recomputation]
    frozen = 1 - workload.trained_share  # weights without a gradient: one product of three less
    ways = training.tensor_parallel * training.pipeline_parallel
    layers, width, length = workload.layers, workload.width, workload.sequence_length
    moved = constants.layer_touches * width
    if not cluster.gpu.has_fused_attention:
        moved += constants.score_touches * workload.heads * length
    logits = tokens * workload.vocabulary
    kept = training.number_bytes
    return Operations(
        matmul_flops=(passes - frozen) * 2 * count_layer_parameters(workload) * tokens / ways,
        head_flops=(1 + BACKWARD - frozen) * 2 * workload.width * logits / ways,
        attention_flops=passes * 4 * length * width * layers * tokens / ways,
        bytes=(passes * moved * kept * layers * tokens + constants.head_touches * kept * logits) / ways,
        layers=passes * layers / training.pipeline_parallel,
        tokens=tokens,
    )


def count_layer_parameters(workload: Transformer) -> float:
    """Weights that each token is multiplied with in the layers: without embeddings.

    A GPT has 12 · layers · width² + vocabulary · width parameters, and learned positions or none; its head is
    its embedding (Brown et al. 2020, arXiv:2005.14165, table 2.1). A model with another count is taken to
    have both, as Llama has, unless it declares that it ties them.
    """
    embedding = float(workload.vocabulary * workload.width)
    positions = float(workload.sequence_length * workload.width)
    layers = 12.0 * workload.layers * workload.width**2
    for around in (embedding, embedding + positions):
        if abs(layers + around - workload.parameters) <= _MATCH * workload.parameters:
            return workload.parameters - around
    around = embedding if workload.tied_embeddings else 2 * embedding
    return max(workload.parameters - around, workload.parameters / 2)


def model_flops(workload: Workload) -> float:
    """FLOPs of one sample, forward and backward, without recomputation or gradients of frozen weights.

    A transformer's: 6 a parameter and token, and 12 · layers · width · sequence length a token (Chowdhery et
    al. 2022, arXiv:2204.02311, appendix B).
    """
    if isinstance(workload, Convolutional):
        return (1 + BACKWARD) * workload.forward_flops
    length = workload.sequence_length
    weights = count_layer_parameters(workload) + workload.vocabulary * workload.width
    products = 4.0 + 2.0 * workload.trained_share
    return length * (products * weights + 12.0 * workload.layers * workload.width * length)


_SHARPNESS = 4  # of the maximum of two times that overlap: close to the larger, rounded where they are equal


class ComputeTime(Struct, frozen=True):
    """Seconds of one micro-batch on one GPU."""

    arithmetic: float
    memory: float
    launch: float  # by which the host's launches of kernels exceed the GPU's work

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.arithmetic + self.memory + self.launch


def time_compute(
    operations: Operations, training: Training, cluster: Cluster, constants: Constants
) -> ComputeTime:
    """Time the arithmetic at its share of the peak, and what lies between at the memory's bandwidth."""
    gpu = cluster.gpu
    arithmetic = _time_arithmetic(operations, training, cluster, constants)
    memory = operations.bytes / (gpu.memory_bytes_per_s * constants.memory_share)
    busy = arithmetic + memory
    host = operations.layers / 3 * constants.pick(constants.launch_seconds, gpu.architecture)
    longest = (busy**_SHARPNESS + host**_SHARPNESS) ** (1 / _SHARPNESS)
    return ComputeTime(arithmetic, memory, longest - busy)


def _time_arithmetic(
    operations: Operations, training: Training, cluster: Cluster, constants: Constants
) -> float:
    gpu, precision = cluster.gpu, training.precision
    peak = gpu.peak_flops[precision]
    wide = peak if precision in ("fp32", "tf32") else gpu.peak_flops.get("bf16") or gpu.peak_flops["fp16"]
    share = constants.pick(constants.matmul_share, gpu.architecture)
    gain = constants.precision_gain.get(precision, 1.0)
    small = 1 + constants.saturation_tokens / max(operations.tokens, 1.0)
    seconds = small * operations.matmul_flops / (peak * share * gain)
    seconds += small * operations.head_flops / (wide * share * (gain if wide == peak else 1.0))
    attention = constants.pick(constants.attention_share, gpu.architecture)
    seconds += operations.attention_flops / (wide * attention)
    kind = "fp32" if precision == "fp32" else "tensor"
    return seconds + operations.convolution_flops / (peak * constants.convolution_share[kind])

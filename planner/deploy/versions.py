"""Software that an export is written for: every piece at one version, with the flags it has at that version.

`read` says where the flags were seen: in the released package, by its own parser; in its source; or in its documents.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

EngineName = Literal["vllm", "sglang"]


@dataclass(frozen=True)
class Software:
    """One piece of software."""

    name: str
    version: str
    read: str
    image: str | None = None


@dataclass(frozen=True)
class Engine(Software):
    """A serving engine with its flags."""

    flags: Mapping[str, str] | None = None
    kv_precisions: Mapping[str, str] | None = None
    """Its word for each number format of the KV cache; what is not here it has no word for."""

    def flag(self, meaning: str) -> str:
        """The flag of a meaning. Raises KeyError."""
        return (self.flags or {})[meaning]

    def kv_word(self, precision: str) -> str | None:
        """Its word for a number format of the KV cache; None where it has none."""
        return (self.kv_precisions or {}).get(precision)


ENGINES: Mapping[EngineName, Engine] = {
    "vllm": Engine(
        "vLLM",
        "0.33.0",
        "source and documents",
        "vllm/vllm-openai:v0.33.0",
        {
            "model name": "--served-model-name",
            "tensor": "--tensor-parallel-size",
            "data": "--data-parallel-size",
            "pipeline": "--pipeline-parallel-size",
            "experts": "--enable-expert-parallel",
            "kv precision": "--kv-cache-dtype",
            "quantization": "--quantization",
            "batch": "--max-num-seqs",
            "pass": "--max-num-batched-tokens",
            "memory": "--gpu-memory-utilization",
            "length": "--max-model-len",
            "transfer": "--kv-transfer-config",
            "hybrid": "--no-disable-hybrid-kv-cache-manager",
            "drafts": "--speculative-config",
        },
        {"bf16": "bfloat16", "fp8": "fp8"},
    ),
    "sglang": Engine(
        "SGLang",
        "0.5.23",
        "the released package",
        "lmsysorg/sglang:v0.5.23",
        {
            "model": "--model-path",
            "model name": "--served-model-name",
            "tensor": "--tp-size",
            "data": "--dp-size",
            "attention data": "--attn-dp-size",
            "pipeline": "--pp-size",
            "experts": "--ep-size",
            "kv precision": "--kv-cache-dtype",
            "quantization": "--quantization",
            "batch": "--max-running-requests",
            "pass": "--chunked-prefill-size",
            "memory": "--mem-fraction-static",
            "length": "--context-length",
            "mixed": "--enable-mixed-chunk",
            "role": "--disaggregation-mode",
            "transfer": "--disaggregation-transfer-backend",
            "bootstrap": "--disaggregation-bootstrap-port",
            "prefix cache": "--disaggregation-decode-enable-radix-cache",
            "drafts": "--speculative-algorithm",
            "draft model": "--speculative-draft-model-path",
            "draft steps": "--speculative-num-steps",
            "draft branches": "--speculative-eagle-topk",
            "draft tokens": "--speculative-num-draft-tokens",
        },
        {"bf16": "bfloat16", "fp8": "fp8_e4m3", "fp4": "nvfp4"},
    ),
}
DYNAMO = Software("Dynamo", "1.6.1", "the released package, and its custom resource's schema")
DYNAMO_IMAGES: Mapping[EngineName, str] = {
    engine: f"nvcr.io/nvidia/ai-dynamo/{engine}-runtime:{DYNAMO.version}" for engine in ENGINES
}
LLM_D = Software("llm-d router", "0.10.0", "source", "ghcr.io/llm-d/llm-d-routing-sidecar:v0.10.0")
LWS = Software("LeaderWorkerSet", "0.11.1", "its custom resource's schema")
KSERVE = Software("KServe", "0.21.0", "its custom resource's schema")
SGLANG_ROUTER = Software("smg", "1.13.0", "the released package")
VLLM_ROUTER = Software("vllm-router", "0.1.17", "the released package")

UCX_TCP = "tcp,sm,cuda_copy,cuda_ipc"
UCX_RDMA = "rc,sm,cuda_copy,cuda_ipc"
UCX_ANY = "rc,tcp,sm,cuda_copy,cuda_ipc"
"""Transports of UCX, under NIXL: what crosses sites has no RDMA."""

PRODUCTS: Mapping[str, str] = {
    "a100-sxm-80gb": "NVIDIA-A100-SXM4-80GB",
    "b200-sxm": "NVIDIA-B200",
    "b300-sxm": "NVIDIA-B300",
    "gb200": "NVIDIA-GB200",
    "gb300": "NVIDIA-GB300",
    "h100-sxm": "NVIDIA-H100-80GB-HBM3",
    "h20-141gb": "NVIDIA-H20-3e",
    "h20-96gb": "NVIDIA-H20",
    "h200-sxm": "NVIDIA-H200",
    "h800-sxm": "NVIDIA-H800",
    "l20": "NVIDIA-L20",
    "l40s": "NVIDIA-L40S",
}
"""Label values that nodes with these accelerators commonly have; what a cluster really says is a parameter."""
PRODUCT_LABEL = "nvidia.com/gpu.product"
RESOURCE = "nvidia.com/gpu"
REGION_LABEL = "topology.kubernetes.io/region"

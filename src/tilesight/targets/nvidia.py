"""NVIDIA's GPUs. Every group of values names the document it was read from."""

from __future__ import annotations

from dataclasses import dataclass

from tilesight.targets.model import PeakTflops, Target

KIB = 1024
MIB = 1024 * 1024
LIMITS_SOURCE = "limits: CUDA C++ Programming Guide, Technical Specifications per Compute Capability"


@dataclass(frozen=True)
class _Limits:
    """What a multiprocessor of one compute capability holds."""

    shared_bytes_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int

    @property
    def shared_bytes_per_block_optin(self) -> int:
        """CUDA keeps 1 KiB of each block for itself (CUDA tuning guides, shared memory)."""
        return self.shared_bytes_per_sm - KIB


_LIMITS = {
    80: _Limits(164 * KIB, 2048, 32),
    89: _Limits(100 * KIB, 1536, 24),
    90: _Limits(228 * KIB, 2048, 32),
    100: _Limits(228 * KIB, 2048, 32),
}


def _nvidia(
    name: str,
    device_name: str,
    arch: int,
    *,
    sms: int,
    clock_mhz: int | None,
    hbm_gb_per_s: float,
    memory_bus_bits: int,
    memory_clock_mhz: int,
    memory_bytes: int,
    l2_bytes: int,
    peaks: PeakTflops,
    sources: tuple[str, ...],
    measured_copy_gb_per_s: float | None = None,
) -> Target:
    """A target with the limits of its compute capability filled in."""
    limits = _LIMITS[arch]
    return Target(
        name=name,
        device_name=device_name,
        backend="cuda",
        arch=arch,
        warp_size=32,
        sms=sms,
        clock_mhz=clock_mhz,
        hbm_gb_per_s=hbm_gb_per_s,
        measured_copy_gb_per_s=measured_copy_gb_per_s,
        memory_bus_bits=memory_bus_bits,
        memory_clock_mhz=memory_clock_mhz,
        memory_bytes=memory_bytes,
        l2_bytes=l2_bytes,
        shared_bytes_per_block=48 * KIB,
        shared_bytes_per_block_optin=limits.shared_bytes_per_block_optin,
        shared_bytes_per_sm=limits.shared_bytes_per_sm,
        registers_per_sm=64 * KIB,
        threads_per_sm=limits.threads_per_sm,
        threads_per_block=1024,
        blocks_per_sm=limits.blocks_per_sm,
        peaks=peaks,
        sources=(*sources, LIMITS_SOURCE),
    )


H200 = _nvidia(
    "h200",
    "NVIDIA H200",
    90,
    sms=132,
    clock_mhz=1980,
    hbm_gb_per_s=4800.0,
    measured_copy_gb_per_s=4253.0,
    memory_bus_bits=6016,
    memory_clock_mhz=3201,
    memory_bytes=150_109_880_320,
    l2_bytes=60 * MIB,
    peaks=PeakTflops(fp32=67.0, tf32=494.5, fp16=989.5, bf16=989.5, fp8=1979.0),
    sources=(
        "bandwidth: NVIDIA H200 Tensor Core GPU Datasheet",
        "peaks: NVIDIA H200 Tensor Core GPU Datasheet (SXM), figures with sparsity halved",
        "measured copy: 2 GiB bf16 copy on an H200, torch 2.11.0",
        "sms, clocks, memory, L2: device properties of an H200",
    ),
)

H100 = _nvidia(
    "h100",
    "NVIDIA H100 80GB HBM3",
    90,
    sms=132,
    clock_mhz=1980,
    hbm_gb_per_s=3350.0,
    memory_bus_bits=5120,
    memory_clock_mhz=2619,
    memory_bytes=85_028_896_768,
    l2_bytes=50 * MIB,
    peaks=PeakTflops(fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9),
    sources=(
        "bandwidth: NVIDIA H100 Tensor Core GPU Datasheet (SXM5)",
        "peaks: NVIDIA H100 Tensor Core GPU Architecture whitepaper (SXM5, dense)",
        "sms, clocks, memory, L2: published deviceQuery output of an H100 80GB HBM3",
    ),
)

B200 = _nvidia(
    "b200",
    "NVIDIA B200",
    100,
    sms=148,
    clock_mhz=None,
    hbm_gb_per_s=8000.0,
    memory_bus_bits=7680,
    memory_clock_mhz=3996,
    memory_bytes=182_642 * MIB,
    l2_bytes=126 * MIB + 512 * KIB,
    peaks=PeakTflops(fp32=80.0, tf32=1100.0, fp16=2250.0, bf16=2250.0, fp8=4500.0),
    sources=(
        "bandwidth: NVIDIA Blackwell Architecture Technical Brief (HGX B200); bus width x clock gives 7,672 GB/s",
        "peaks: NVIDIA Blackwell Architecture Technical Brief (HGX B200, 1,000 W), figures with sparsity halved",
        "sms, memory clock, L2: device properties of a B200 published with pytorch/ao's roofline table",
        "memory: published torch device properties of a B200, rounded down to a MiB",
        "clock: not known",
    ),
)

A100 = _nvidia(
    "a100",
    "NVIDIA A100-SXM4-80GB",
    80,
    sms=108,
    clock_mhz=1410,
    hbm_gb_per_s=2039.0,
    memory_bus_bits=5120,
    memory_clock_mhz=1593,
    memory_bytes=84_987_740_160,
    l2_bytes=40 * MIB,
    peaks=PeakTflops(fp32=19.5, tf32=156.0, fp16=312.0, bf16=312.0),
    sources=(
        "bandwidth: NVIDIA A100 Tensor Core GPU Datasheet (80GB SXM)",
        "peaks: NVIDIA A100 Tensor Core GPU Datasheet (dense); no fp8",
        "sms, clocks, memory, L2: published deviceQuery output of an A100-SXM4-80GB",
    ),
)

L40S = _nvidia(
    "l40s",
    "NVIDIA L40S",
    89,
    sms=142,
    clock_mhz=2520,
    hbm_gb_per_s=864.0,
    memory_bus_bits=384,
    memory_clock_mhz=9001,
    memory_bytes=47_576_711_168,
    l2_bytes=96 * MIB,
    peaks=PeakTflops(fp32=91.6, tf32=183.0, fp16=362.05, bf16=362.05, fp8=733.0),
    sources=(
        "bandwidth: NVIDIA L40S Datasheet",
        "peaks: NVIDIA L40S Datasheet (dense)",
        "sms, clocks, memory, L2: published deviceQuery output of an L40S",
    ),
)

RTX4090 = _nvidia(
    "rtx4090",
    "NVIDIA GeForce RTX 4090",
    89,
    sms=128,
    clock_mhz=2520,
    hbm_gb_per_s=1008.0,
    memory_bus_bits=384,
    memory_clock_mhz=10501,
    memory_bytes=25_250_627_584,
    l2_bytes=72 * MIB,
    peaks=PeakTflops(fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3),
    sources=(
        "bandwidth: NVIDIA Ada GPU Architecture whitepaper",
        "peaks: NVIDIA Ada GPU Architecture whitepaper (dense, fp32 accumulation)",
        "sms, clocks, memory, L2: published deviceQuery output of a GeForce RTX 4090",
    ),
)

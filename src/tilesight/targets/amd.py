"""AMD's GPUs. Every group of values names the document it was read from."""

from __future__ import annotations

from tilesight.targets.model import PeakTflops, Target

KIB = 1024
MIB = 1024 * 1024

MI300X = Target(
    name="mi300x",
    device_name="AMD Instinct MI300X",
    backend="hip",
    arch="gfx942",
    warp_size=64,
    sms=304,
    clock_mhz=2100,
    hbm_gb_per_s=5325.0,
    measured_copy_gb_per_s=None,
    memory_bus_bits=8192,
    memory_clock_mhz=None,
    memory_bytes=201_310_208 * KIB,
    l2_bytes=32 * MIB,
    last_level_cache_bytes=256 * MIB,
    shared_bytes_per_block=64 * KIB,
    shared_bytes_per_block_optin=64 * KIB,
    shared_bytes_per_sm=64 * KIB,
    registers_per_sm=512 * KIB // 4,
    threads_per_sm=2048,
    threads_per_block=1024,
    blocks_per_sm=None,
    peaks=PeakTflops(fp32=163.4, tf32=653.7, fp16=1307.4, bf16=1307.4, fp8=2614.9),
    sources=(
        "bandwidth, bus: AMD Instinct MI300X Accelerator Data Sheet",
        "peaks: AMD Instinct MI300X Accelerator Data Sheet (dense)",
        "caches, shared memory, registers: ROCm documentation, AMD GPU specifications (L2 is 8 x 4 MiB, one a die)",
        "compute units, clock, memory, threads: published rocminfo output of an MI300X",
        "memory clock, blocks per compute unit: not known",
    ),
)

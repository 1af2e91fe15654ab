"""What is known of a GPU that need not be here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PeakTflops:
    """Dense peaks in TFLOP/s, fp32 accumulation; None where the sources name none.

    `fp32` is the vector units' rate; the others are the matrix units' (tensor or matrix cores),
    without structured sparsity.
    """

    fp32: float | None = None
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None
    fp8: float | None = None


@dataclass(frozen=True)
class Target:
    """One GPU: what a kernel is compiled, checked and predicted for. None means not known.

    Args:
        name: the name that the command line takes, such as `h200`
        device_name: the name that the device's driver reports
        backend: Triton's back end, `cuda` or `hip`
        arch: compute capability times ten (90), or the LLVM target name (`gfx942`)
        warp_size: threads of a warp (wavefront)
        sms: multiprocessors (compute units)
        clock_mhz: highest multiprocessor clock that the driver reports
        hbm_gb_per_s: memory bandwidth of the datasheet, GB/s
        measured_copy_gb_per_s: bytes read and written by a large copy on the device, GB/s
        memory_bus_bits: width of the memory interface
        memory_clock_mhz: as the driver reports it, two transfers a clock
        memory_bytes: device memory that the driver reports
        l2_bytes: L2 cache of the whole device
        last_level_cache_bytes: a cache between L2 and memory, None where there is none
        shared_bytes_per_block: shared memory of a block without opting in
        shared_bytes_per_block_optin: with opting in
        shared_bytes_per_sm: shared memory of a multiprocessor
        registers_per_sm: 32-bit registers of a multiprocessor
        threads_per_sm, threads_per_block, blocks_per_sm: the most that may be resident
        peaks: dense TFLOP/s by dtype
        sources: `group: document` for each group of values
    """

    name: str
    device_name: str
    backend: str
    arch: int | str
    warp_size: int
    sms: int
    clock_mhz: int | None
    hbm_gb_per_s: float
    measured_copy_gb_per_s: float | None
    memory_bus_bits: int
    memory_clock_mhz: int | None
    memory_bytes: int
    l2_bytes: int
    shared_bytes_per_block: int
    shared_bytes_per_block_optin: int
    shared_bytes_per_sm: int
    registers_per_sm: int
    threads_per_sm: int
    threads_per_block: int
    blocks_per_sm: int | None
    peaks: PeakTflops
    sources: tuple[str, ...]
    last_level_cache_bytes: int | None = None

    @property
    def roof_gb_per_s(self) -> float:
        """The bandwidth that a kernel can be held to, GB/s: measured where known, else the datasheet's."""
        return self.measured_copy_gb_per_s or self.hbm_gb_per_s

    def peak_tflops(self, dtype: str) -> float | None:
        """Dense peak for a dtype in PyTorch's or Triton's short form, TFLOP/s; None when unknown."""
        names = {
            "float32": "fp32",
            "float16": "fp16",
            "bfloat16": "bf16",
            "float8_e4m3fn": "fp8",
            "float8_e5m2": "fp8",
        }
        short = names.get(dtype, dtype)
        return {
            "fp32": self.peaks.fp32,
            "tf32": self.peaks.tf32,
            "fp16": self.peaks.fp16,
            "bf16": self.peaks.bf16,
            "fp8": self.peaks.fp8,
        }.get(short)

"""The table of GPUs: complete, consistent with physics, and loud about unknown names."""

from __future__ import annotations

import pytest

from tilesight.errors import InputError
from tilesight.targets import Target, target, target_names

EVERY_NAME = ("h200", "h100", "b200", "a100", "l40s", "rtx4090", "mi300x")
every_target = pytest.mark.parametrize("gpu", [target(name) for name in EVERY_NAME], ids=EVERY_NAME)


def test_the_promised_gpus_are_there() -> None:
    assert target_names() == EVERY_NAME


def test_h200_is_what_a_device_answered() -> None:
    h200 = target("h200")
    assert (h200.backend, h200.arch, h200.warp_size) == ("cuda", 90, 32)
    assert (h200.sms, h200.clock_mhz) == (132, 1980)
    assert (h200.memory_bus_bits, h200.memory_clock_mhz) == (6016, 3201)
    assert h200.memory_bytes == 150_109_880_320
    assert h200.l2_bytes == 62_914_560
    assert h200.shared_bytes_per_block == 49_152
    assert h200.shared_bytes_per_block_optin == 232_448
    assert h200.shared_bytes_per_sm == 233_472
    assert (h200.registers_per_sm, h200.threads_per_sm) == (65_536, 2_048)
    assert h200.roof_gb_per_s == 4253.0


@pytest.mark.parametrize(
    ("name", "optin", "per_sm", "threads"),
    [
        ("a100", 166_912, 167_936, 2048),
        ("l40s", 101_376, 102_400, 1536),
        ("rtx4090", 101_376, 102_400, 1536),
        ("b200", 232_448, 233_472, 2048),
        ("mi300x", 65_536, 65_536, 2048),
    ],
)
def test_limits_of_a_multiprocessor(name: str, optin: int, per_sm: int, threads: int) -> None:
    gpu = target(name)
    assert gpu.shared_bytes_per_block_optin == optin
    assert gpu.shared_bytes_per_sm == per_sm
    assert gpu.threads_per_sm == threads


@every_target
def test_bandwidth_is_bus_width_times_two_transfers_a_clock(gpu: Target) -> None:
    if gpu.memory_clock_mhz is None:
        assert gpu.name == "mi300x"
        return
    computed_gb_per_s = gpu.memory_bus_bits / 8 * gpu.memory_clock_mhz * 2 / 1000
    assert computed_gb_per_s == pytest.approx(gpu.hbm_gb_per_s, rel=0.05)


@every_target
def test_vector_peak_is_units_times_clock(gpu: Target) -> None:
    if gpu.clock_mhz is None:
        assert gpu.name == "b200"
        return
    lanes = {80: 64, 89: 128, 90: 128, "gfx942": 128}[gpu.arch]
    computed_tflops = gpu.sms * lanes * 2 * gpu.clock_mhz / 1e6
    assert gpu.peaks.fp32 == pytest.approx(computed_tflops, rel=0.02)


@every_target
def test_matrix_peaks_double_as_the_dtype_halves(gpu: Target) -> None:
    peaks = gpu.peaks
    assert peaks.fp16 == peaks.bf16
    assert peaks.tf32 and peaks.fp16
    assert peaks.fp16 == pytest.approx(2 * peaks.tf32, rel=0.03)
    if peaks.fp8 is None:
        assert gpu.name == "a100"
    else:
        assert peaks.fp8 == pytest.approx(2 * peaks.fp16, rel=0.03)


@every_target
def test_every_group_names_its_source(gpu: Target) -> None:
    groups = [source.split(":")[0] for source in gpu.sources]
    assert all(": " in source for source in gpu.sources)
    assert {"bandwidth", "peaks"} <= {word.strip() for group in groups for word in group.split(",")}


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", 67.0), ("tf32", 494.5), ("bfloat16", 989.5), ("fp16", 989.5), ("float8_e4m3fn", 1979.0)],
)
def test_peak_by_dtype(dtype: str, expected: float) -> None:
    assert target("h200").peak_tflops(dtype) == expected


def test_peak_of_a_dtype_without_matrix_units_is_unknown() -> None:
    assert target("a100").peak_tflops("float8_e5m2") is None
    assert target("h200").peak_tflops("int4") is None


@pytest.mark.parametrize("spelling", ["H200", "RTX 4090", "rtx-4090", "MI300X"])
def test_spelling_is_forgiven(spelling: str) -> None:
    assert target(spelling).name in EVERY_NAME


def test_an_unknown_gpu_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"--target: unknown target 'h300'; expected one of h200, .*mi300x"):
        target("h300")

"""A Triton back end whose last stage is TTIR, and the driver that hands launches to the engine.

The front end is the CUDA back end's own (its options, libdevice names and TTIR passes), so that the
module the engine executes is the module a GPU build would lower. Seen to work on Triton 3.6, 3.7.1
and 3.8.
"""

# Triton's abstract methods end in `pass`, from which pyright infers that they return None.
# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton.backends import Backend, backends
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime.driver import driver as triton_driver

from tilesight.capture.fp8e4b15 import convert_fp8e4b15
from tilesight.targets import Target

BACKEND_NAME = "tilesight"
UNLIMITED = 2**31 - 1
AMD_FP8_DTYPES = ("fp8e4b8", "fp8e5b16")

RunKernel = Callable[[Any, Any, str, tuple[int, int, int], tuple[Any, ...]], None]


class LentTarget(GPUTarget):
    """A CUDA device that scripts see and the engine stands for."""


class LentDeviceIndex(int):
    """0, a device's index, yet another key for each architecture: Triton keeps compiled kernels by it."""

    def __new__(cls, arch: int) -> LentDeviceIndex:
        index = super().__new__(cls, 0)
        index.arch = arch
        return index

    arch: int

    def __hash__(self) -> int:
        return hash((BACKEND_NAME, self.arch))

    def __eq__(self, other: object) -> bool:
        return self.arch == other.arch if isinstance(other, LentDeviceIndex) else int(self) == other


def _source_hash() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]


class EngineBackend(CUDABackend):
    """Triton's front end and TTIR passes for a CUDA architecture; what is executed is the TTIR."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == BACKEND_NAME or isinstance(target, LentTarget)

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = BACKEND_NAME

    def parse_options(self, opts: Any) -> Any:
        """The CUDA options, with AMD's fp8 types too: the engine has both, a lent device what its GPU has."""
        options = super().parse_options(opts)
        if isinstance(self.target, LentTarget) or "supported_fp8_dtypes" in opts:
            return options
        return replace(options, supported_fp8_dtypes=tuple(sorted({*options.supported_fp8_dtypes, *AMD_FP8_DTYPES})))

    def get_codegen_implementation(self, options: Any) -> Any:
        return {**super().get_codegen_implementation(options), "convert_custom_types": convert_fp8e4b15}

    def get_target_name(self, options: Any) -> str:
        return f"{BACKEND_NAME}:{self.target.arch}"

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        capability = int(self._parse_arch(options.arch))

        def to_ttir(module: Any, metadata: dict[str, Any]) -> str:
            text = str(CUDABackend.make_ttir(module, metadata, options, capability))
            metadata["name"] = _public_function_name(text)
            metadata["shared"] = 0
            # Triton finds the back end again by it, after a round trip through JSON that keeps no subclass.
            metadata["target"] = GPUTarget(BACKEND_NAME, self.target.arch, self.target.warp_size)
            return text

        stages["ttir"] = to_ttir
        # Triton hands out the last stage as bytes; a script that reads `asm["ttir"]` expects text.
        stages[BACKEND_NAME] = lambda text, metadata: text

    def pack_metadata(self, metadata: Any) -> Any:
        return metadata

    def hash(self) -> str:
        return f"{BACKEND_NAME}-{self.target.arch}-{_source_hash()}"


def _public_function_name(ttir: str) -> str:
    match = re.search(r"tt\.func public @([\w.$]+|\"[^\"]+\")", ttir)
    if match is None:
        raise RuntimeError("Triton's TTIR holds no public function")
    return match.group(1).strip('"')


class _Utils:
    """What Triton asks of a driver when it loads a compiled kernel: here the text is the kernel."""

    def load_binary(self, name: str, kernel: Any, shared: int, device: Any) -> tuple[Any, ...]:
        text = kernel.decode() if isinstance(kernel, bytes) else kernel
        return None, text, 0, 0, UNLIMITED  # no module: Triton would ask whichever driver is active to unload it

    def __init__(self, lent: Target | None) -> None:
        self._lent = lent

    def get_device_properties(self, device: Any) -> dict[str, int | None]:
        """The engine's own: none of a GPU's limits; or what the lent device's driver would report."""
        if self._lent is None:
            return {"max_shared_mem": UNLIMITED, "multiprocessor_count": 1, "warpSize": 32}
        return {
            "max_shared_mem": self._lent.shared_bytes_per_block_optin,
            "max_num_regs": self._lent.registers_per_sm,
            "multiprocessor_count": self._lent.sms,
            "warpSize": self._lent.warp_size,
            "sm_clock_rate": _khz(self._lent.clock_mhz),
            "mem_clock_rate": _khz(self._lent.memory_clock_mhz),
            "mem_bus_width": self._lent.memory_bus_bits,
        }

    def unload_module(self, module: Any) -> None:
        return None


def _khz(clock_mhz: int | None) -> int | None:
    return None if clock_mhz is None else clock_mhz * 1000


class EngineDriver(DriverBase):
    """Triton's view of the engine: a device that takes CPU tensors.

    Args:
        run_kernel: called with (source, metadata, TTIR text, grid, every bound argument)
        arch: compute capability the front end specialises for, such as 90
        session: whoever installed the driver, for those who find it active
        lent: the GPU that scripts are to see as `cuda:0`; None shows them a CPU
    """

    def __init__(
        self, run_kernel: RunKernel, arch: int = 90, session: object = None, lent: Target | None = None
    ) -> None:
        super().__init__()
        self.session = session
        self._run_kernel = run_kernel
        self._arch = arch
        self._lent = lent
        self.utils = _Utils(lent)

    @classmethod
    def is_active(cls) -> bool:
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        if self._lent is not None:
            return LentTarget("cuda", self._arch, self._lent.warp_size)
        return GPUTarget(BACKEND_NAME, self._arch, 32)

    def get_current_device(self) -> str | int:
        """The key under which Triton caches compiled kernels: one for each architecture."""
        return f"{BACKEND_NAME}-{self._arch}" if self._lent is None else LentDeviceIndex(self._arch)

    def set_current_device(self, device: Any) -> None:
        return None

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu") if self._lent is None else torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cpu if self._lent is None else torch.cuda

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        return _first_config_wins

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        def launch(
            grid_x: int,
            grid_y: int,
            grid_z: int,
            stream: Any,
            function: str,
            packed: Any,
            launch_metadata: Any,
            enter_hook: Any,
            exit_hook: Any,
            *arguments: Any,
        ) -> None:
            if enter_hook is not None:
                enter_hook(launch_metadata)
            # Triton keeps this launcher with the compiled kernel: it must serve whoever is installed by then.
            driver = active_driver()
            run_kernel = driver._run_kernel if isinstance(driver, EngineDriver) else self._run_kernel
            run_kernel(source, metadata, function, (grid_x, grid_y, grid_z), arguments)
            if exit_hook is not None:
                exit_hook(launch_metadata)

        return launch


def _first_config_wins(kernel_call: Any, *, quantiles: Sequence[float] | None = None, **_: Any) -> list[float]:
    """Give each config the same time and run none, so that autotune keeps its first one."""
    return [1.0] * (len(quantiles) if quantiles else 1)


class _GpuOnlyBackend(CUDABackend):
    """Triton's CUDA back end, which leaves a lent device to the engine's."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return not isinstance(target, LentTarget) and CUDABackend.supports_target(target)


def register_backend() -> None:
    """Make Triton know the engine's back end; it stays inactive until a driver is installed."""
    for name, backend in backends.items():
        if backend.compiler is CUDABackend:
            backends[name] = Backend(compiler=_GpuOnlyBackend, driver=backend.driver)
    backends.setdefault(BACKEND_NAME, Backend(compiler=EngineBackend, driver=EngineDriver))


def active_driver() -> Any:
    """The driver Triton has been given, or None while it has not chosen one (`DriverConfig._active`)."""
    return triton_driver._active


def install_driver(driver: Any) -> None:
    """Make `driver` the one Triton launches through; None lets Triton choose again."""
    if driver is None:
        triton_driver._active = None
    else:
        triton_driver.set_active(driver)

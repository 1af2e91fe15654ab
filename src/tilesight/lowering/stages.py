"""Triton's stock CUDA back end, one stage after another, for a GPU that is not here.

Private parts of Triton, seen on 3.6, 3.7.1 and 3.8.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from triton import knobs
from triton._C.libtriton import ir, nvidia, passes
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as cuda
from triton.compiler import make_backend

from tilesight.capture.backend import EngineDriver, install_driver
from tilesight.lowering.model import Allocation, Assembly, Stage
from tilesight.targets import Target

_USAGE = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.DOTALL
)


def gpu_target(target: Target) -> GPUTarget:
    """Triton's name for a GPU."""
    return GPUTarget(target.backend, int(target.arch), target.warp_size)


def parse_options(options: Mapping[str, Any], target: Target) -> Any:
    """Options as the back end completes them for the target.

    Raises: AssertionError, ValueError: for those that it refuses
    """
    # The name of the architecture wins over TRITON_OVERRIDE_ARCH.
    return backend_for(target).parse_options({**options, "arch": f"sm{target.arch}"})


def backend_for(target: Target) -> Any:
    """The stock back end for a target."""
    return make_backend(gpu_target(target))


def run_stages(
    source: Any, options: Any, target: Target, until: Stage
) -> Iterator[tuple[str, str | bytes | Allocation | Assembly | None]]:
    """(stage, None) as each begins, (stage, text) when it is over; an allocation follows ttgir, assembly cubin.

    It leaves Triton with another driver and other knobs: run it in a process of its own.

    Args:
        source: Triton's ASTSource
        options: what `parse_options` returned
    Raises: whatever Triton raises
    """
    _stand_for(target)
    backend = backend_for(target)
    steps: dict[str, Any] = {}
    backend.add_stages(steps, options, source.language)
    context: Any = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    metadata: dict[str, Any] = {"target": gpu_target(target), **options.__dict__}
    yield "ttir", None
    codegen = backend.get_codegen_implementation(options)
    module = source.make_ir(gpu_target(target), options, codegen, backend.get_module_map(), context)
    for stage, step in steps.items():
        if stage != "ttir":
            yield stage, None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            module = step(module, metadata)
        yield stage, module if isinstance(module, bytes) else str(module)
        if stage == "ttgir":
            yield "allocation", allocate(str(module), backend, options, target)
        if stage == "cubin":
            yield "assembly", read_usage(printed.getvalue())
        if stage == until:
            return


def _stand_for(target: Target) -> None:
    """Make `tl.target_info` and the back end see the target, and ptxas tell what it used."""

    def refuse(*_: Any) -> NoReturn:
        raise AssertionError("nothing is launched while a kernel is compiled")

    install_driver(EngineDriver(refuse, int(target.arch), None, target))
    knobs.nvidia.dump_ptxas_log = True


def allocate(ttgir: str, backend: Any, options: Any, target: Target) -> Allocation:
    """What a block of a TTGIR module takes: the passes that `make_llir` begins with, without LLVM.

    LLVM can take an hour over a kernel whose shared memory is known in a hundredth of a second.
    """
    context: Any = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".ttgir") as file:
        file.write(ttgir)
        file.flush()
        module: Any = ir.parse_mlir_module(file.name, context)
    module.context = context
    manager: Any = ir.pass_manager(context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    _add_allocate_warp_groups(manager)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    version = cuda.get_ptx_version_from_options(options, int(target.arch))
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, int(target.arch), version)
    nvidia.passes.ttnvgpuir.add_allocate_tensor_memory(manager)
    manager.run(module, "allocate")
    return Allocation(
        shared_bytes=module.get_int_attr("ttg.shared") or 0,
        num_warps=module.get_int_attr("ttg.total-num-warps") or options.num_warps,
        tensor_columns=module.get_int_attr("ttg.tensor_memory_size") or 0,
    )


def _add_allocate_warp_groups(manager: Any) -> None:
    try:
        passes.ttgpuir.add_allocate_warp_groups(manager)
    except TypeError:  # Triton 3.8 asks whether the concurrency sanitizer is on
        passes.ttgpuir.add_allocate_warp_groups(manager, False)


def read_usage(log: str) -> Assembly | None:
    """What ptxas' log says of the kernel's entry; None where it says nothing."""
    match = _USAGE.search(log)
    if match is None:
        return None
    stack, stores, loads, registers = map(int, match.groups())
    return Assembly(registers, stack, stores, loads)

"""What torch.cuda answers to a script while a `cuda` is lent to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tilesight.capture.inductor.pretend import device_properties
from tilesight.capture.lent.clock import DEFAULT_STREAM, CpuEvent, CpuStream, NoChange
from tilesight.capture.lent.marks import LENT_DEVICE, lent_device
from tilesight.errors import UnsupportedError
from tilesight.targets import Target

_NO_MEMORY_COUNT = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "memory_cached", "max_memory_cached",
)  # fmt: skip
_NOTHING_TO_DO = (
    "_lazy_init", "init", "empty_cache", "ipc_collect", "synchronize", "set_device", "set_stream",
    "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_accumulated_memory_stats", "set_per_process_memory_fraction",
)  # fmt: skip

Say = Callable[[str], None]


def cuda_answers(target: Target, say: Say) -> dict[str, Any]:
    """Attributes to put on torch.cuda, by name.

    Args:
        target: the GPU that is answered for
        say: tells the user a thing once
    """
    nothing: dict[str, Any] = dict.fromkeys(_NOTHING_TO_DO, _do_nothing)
    counts: dict[str, Any] = {name: _no_memory_count(say) for name in _NO_MEMORY_COUNT}
    return nothing | counts | _device_answers(target) | _random_answers() | _stream_answers(say)


def accelerator_answers() -> dict[str, Any]:
    """Attributes to put on torch.accelerator, by name."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_accelerator": lambda check_available=False: torch.device(LENT_DEVICE.type),
        "current_device_index": lambda: LENT_DEVICE.index,
        "current_device_idx": lambda: LENT_DEVICE.index,
        "set_device_index": _do_nothing,
        "synchronize": _do_nothing,
        "current_stream": lambda device=None: DEFAULT_STREAM,
        "empty_cache": _do_nothing,
    }


def nvtx_answers() -> dict[str, Any]:
    """Attributes to put on torch.cuda.nvtx, by name."""
    return {
        "range_push": lambda message: 0,
        "range_pop": lambda: 0,
        "range_start": lambda message: 0,
        "range_end": _do_nothing,
        "mark": _do_nothing,
        "range": NoChange,
    }


def _device_answers(target: Target) -> dict[str, Any]:
    properties = device_properties(target)

    def of_device(answer: Callable[[], Any]) -> Callable[..., Any]:
        def ask(device: Any = None) -> Any:
            lent_device(device)
            return answer()

        return ask

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: 1,
        "current_device": lambda: LENT_DEVICE.index,
        "get_device_name": of_device(lambda: properties.name),
        "get_device_properties": of_device(lambda: properties),
        "get_device_capability": of_device(lambda: (properties.major, properties.minor)),
        "get_arch_list": lambda: [f"sm_{target.arch}"],
        "is_bf16_supported": lambda including_emulation=True: int(target.arch) >= 80,
        "is_tf32_supported": lambda: int(target.arch) >= 80,
        "can_device_access_peer": lambda device, peer_device: False,
        "mem_get_info": of_device(lambda: (properties.total_memory, properties.total_memory)),
        "memory_stats": of_device(dict),
        "memory_summary": lambda device=None, abbreviated=False: "no memory is counted on a lent device",
        "device": NoChange,
        "device_of": NoChange,
    }


def _random_answers() -> dict[str, Any]:
    """The lent device draws from the CPU's generator."""
    generator = torch.default_generator
    return {
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "seed": generator.seed,
        "seed_all": generator.seed,
        "initial_seed": generator.initial_seed,
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda new_state, device="cuda": torch.set_rng_state(new_state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda new_states: torch.set_rng_state(new_states[0]),
        "default_generators": (generator,),
    }


def _stream_answers(say: Say) -> dict[str, Any]:
    return {
        "Event": partial(CpuEvent, timed=lambda: say(TIMES_ARE_THE_CPUS)),
        "Stream": CpuStream,
        "ExternalStream": CpuStream,
        "stream": NoChange,
        "StreamContext": NoChange,
        "current_stream": lambda device=None: DEFAULT_STREAM,
        "default_stream": lambda device=None: DEFAULT_STREAM,
        "is_current_stream_capturing": lambda: False,
        "CUDAGraph": _no_graphs,
        "graph": _no_graphs,
        "make_graphed_callables": _no_graphs,
    }


TIMES_ARE_THE_CPUS = (
    "the times this script reads are those of this CPU running the engine, and say nothing about a GPU; "
    "measure on a machine that has one"
)


def _do_nothing(*_: Any, **__: Any) -> None:
    return None


def _no_memory_count(say: Say) -> Callable[..., int]:
    def count(device: Any = None) -> int:
        say("torch.cuda's memory figures are 0: no GPU memory is used, the tensors live on the CPU")
        return 0

    return count


def _no_graphs(*_: Any, **__: Any) -> Any:
    raise UnsupportedError(
        "CUDA graphs on a lent device",
        expected="a script that launches its kernels one by one",
        next_step="call the function directly where torch.cuda.get_device_name() is not a real GPU's",
    )

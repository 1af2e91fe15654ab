"""The text around an exported kernel: what makes its file run, check and time itself with torch and Triton alone."""

from __future__ import annotations

from string import Template

FILE = Template('''\
"""$title

$origin
`python FILE` makes the inputs, launches the kernel, compares what it gives with $checked_by,
and times it. On a GPU torch and Triton are enough; where there is none, Tilesight's engine runs the kernel on the
CPU and no time is told. Exit code 0: the numbers are right, 1: they are wrong, 2: not run.
"""

import math
import sys

import torch
import triton
import triton.language as tl
$imports
$constants
# What the kernel reads and writes: (shape, strides, dtype, role), the role "in", "out" or "inout".
OPERANDS = {
$operands
}
INPUTS = "$inputs"  # random floats: "normal", or "positive" where others give NaN
INDEX_LIMIT = $index_limit  # integers are below this
ENGINE_LIMIT_BYTES = 256_000_000  # tensors that are larger together are not run on the CPU
# Largest |output - reference| / (|reference| + rms(reference)) that is right; other dtypes must be equal.
TOLERANCES = {
$tolerances
}


$kernel


def launch($names):
$launch


$reference


def make_tensors(device):
    """Random where the kernel reads; NaN, or the largest integer, where it only writes."""
    generator = torch.Generator().manual_seed(0)
    return {name: make_tensor(*operand, generator, device) for name, operand in OPERANDS.items()}


def make_tensor(shape, strides, dtype, role, generator, device):
    elements = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if math.prod(shape) else 1
    if role == "out":
        last = True if dtype == torch.bool else math.nan if dtype.is_floating_point else torch.iinfo(dtype).max
        memory = torch.full((elements,), last, dtype=dtype)
    elif dtype.is_floating_point:
        draw = torch.randn if INPUTS == "normal" else torch.rand
        memory = (draw(elements, generator=generator) + 0.5 * (INPUTS == "positive")).to(dtype)
    else:
        limit = 2 if dtype == torch.bool else min(INDEX_LIMIT, torch.iinfo(dtype).max)
        memory = torch.randint(0, max(limit, 1), (elements,), generator=generator).to(dtype)
    return torch.as_strided(memory.to(device), shape, strides)


def largest_error(output, expected):
    """Infinities must be equal and NaN must meet NaN; anything else is an infinite error."""
    got, expected = output.double(), expected.reshape(output.shape).to(output.device).double()
    if not got.numel():
        return 0.0
    same = (got == expected) | (got.isnan() & expected.isnan())
    size = float(expected.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).square().mean().sqrt()) or 1.0
    relative = ((got - expected).abs() / (size + expected.abs())).masked_fill(same, 0.0)
    return float(relative.nan_to_num(nan=math.inf, posinf=math.inf).max())


def check(device):
    """(name, largest error, tolerance) of each output."""
    tensors = make_tensors(device)
    expected = reference(**make_tensors(device))  # the same numbers once more: the kernel may change its own
    launch(**tensors)
    return [
        (name, largest_error(tensors[name], value), TOLERANCES.get(tensors[name].dtype, 0.0))
        for name, value in expected.items()
    ]


def time_us(device):
    """Microseconds of one launch on the GPU, its median."""
    tensors = make_tensors(device)
    return triton.testing.do_bench(lambda: launch(**tensors), warmup=100, rep=400, return_mode="median") * 1e3


def find_device():
    """"cuda", or "cpu" with Tilesight's engine behind Triton."""
    launches = sys.modules.get("tilesight.capture.launches")  # `tilesight run` has its engine in place already
    if torch.cuda.is_available() and (launches is None or launches.installed_session() is None):
        return "cuda"
    try:
        import tilesight
    except ImportError:
        print("not run: no GPU here, and Tilesight, whose engine runs Triton on a CPU, is not installed")
        sys.exit(2)
    tilesight.enable()
    return "cpu"


def total_bytes():
    return sum(math.prod(shape) * dtype.itemsize for shape, _, dtype, _ in OPERANDS.values())


def moved_bytes():
    """Each tensor once, and once more where it is both read and written."""
    changed = [operand for operand in OPERANDS.values() if operand[3] == "inout"]
    return total_bytes() + sum(math.prod(shape) * dtype.itemsize for shape, _, dtype, _ in changed)


def main():
    device = find_device()
    print(f"$name on {torch.cuda.get_device_name() if device == 'cuda' else 'the engine (CPU)'}")
    if device == "cpu" and total_bytes() > ENGINE_LIMIT_BYTES:
        print(f"not run: its tensors take {total_bytes():,} bytes, ENGINE_LIMIT_BYTES is {ENGINE_LIMIT_BYTES:,}")
        return 2
    wrong = 0
    for name, error, tolerance in check(device):
        wrong += error > tolerance
        print(f"{name}: {'right' if error <= tolerance else 'WRONG'}, error {error:.1e}, tolerance {tolerance:.0e}")
    if device == "cpu":
        print("not timed: no GPU")
    else:
        time = time_us(device)
        print(f"{time:.2f} us, {moved_bytes() / time / 1e3:.0f} GB/s of {moved_bytes():,} bytes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
''')

GRAPH_REFERENCE = Template('''\
aten, prims, f64, inf, nan = torch.ops.aten, torch.ops.prims, torch.float64, math.inf, math.nan
$helper

def reference($names):
    """What the graph computes, operator by operator in float64, without rounding in between."""
$device$widened$statements
    return {$results}
''')

ONLINE_SOFTMAX = '''

def online_softmax(x, dim):
    """(largest, sum of exp(x - largest)) along an axis."""
    largest = x.amax(dim, keepdim=True)
    return largest, (x - largest).exp().sum(dim, keepdim=True)
'''

OWN_REFERENCE = Template('''\
$as_generated


def reference($names):
    """What the kernel gives as torch.compile generated it.

$reason
    """
$launch
    return {$results}
''')

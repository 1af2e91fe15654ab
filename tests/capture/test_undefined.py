"""What stands for an undefined element, and how long a record of them lives."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.capture.flags import flags
from tilesight.capture.provenance import Provenance
from tilesight.capture.tensors import bytes_at
from tilesight.capture.undefined import written_of

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e8m0fnu,
    torch.bits16,
]


@pytest.fixture(autouse=True)
def watched() -> Iterator[Provenance]:
    with Provenance() as provenance:
        yield provenance


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_undefined_elements_hold_a_poison_that_writes_show_against(dtype: torch.dtype) -> None:
    tensor = torch.empty(5, dtype=dtype)
    size = dtype.itemsize
    raw = bytes_at(tensor.data_ptr(), 5 * size).reshape(5, size)
    assert (raw == raw[0]).all()
    assert raw[0].any()
    assert flags(tensor) == "....."
    raw[2] = 0
    assert flags(tensor) == ("" if size == 1 else "..x..")


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.is_floating_point or d.is_complex], ids=str)
def test_a_float_that_is_undefined_is_nan(dtype: torch.dtype) -> None:
    value = torch.empty(1, dtype=dtype)
    wide = torch.view_as_real(value) if dtype.is_complex else value
    assert bool(wide.float().isnan().all())


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64, torch.uint16], ids=str)
def test_an_integer_that_is_undefined_is_large_and_odd(dtype: torch.dtype) -> None:
    value = int(torch.empty(1, dtype=dtype).numpy()[0])
    assert value == torch.iinfo(dtype).max - 2
    assert value % 2 == 1


def test_flags_are_shared_and_say_where_they_are() -> None:
    tensor = torch.empty(6, dtype=torch.float64)
    found = written_of(tensor[2:])
    assert found is not None
    assert (found.address, found.item_bytes) == (tensor.data_ptr(), 8)
    found.written[:6] = True
    assert written_of(tensor) is None


def test_an_address_that_is_given_out_again_inherits_nothing() -> None:
    reused = 0
    for elements in np.repeat([64, 1024, 16384, 2**20], 50):
        undefined = torch.empty(int(elements))
        address = undefined.data_ptr()
        del undefined
        written = torch.ones(int(elements))
        reused += written.data_ptr() == address
        assert written_of(written) is None
    assert reused > 0


def test_a_record_lives_as_long_as_its_storage() -> None:
    tensor = torch.empty(64)
    view = tensor[3:]
    found = written_of(tensor)
    assert found is not None
    living = weakref.ref(found)
    del tensor, found
    gc.collect()
    assert flags(view) == "." * 64
    assert living() is not None
    del view
    gc.collect()
    assert living() is None

"""What the launches of a run did with its inputs: which lines touch them, whether the right elements, where copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilesight.capture.copies import CopyPlace
from tilesight.capture.numerics import flatten
from tilesight.engine.listener import Access, Listener
from tilesight.roads.check_launches import CheckObserver, Site


@dataclass(frozen=True)
class InputUse:
    """What became of a run's inputs.

    Args:
        sites: the lines that touch tensors
        stored: for each input that a launch stores to the first line that does
        strides: of the input that has a layout; None for none
        site: the line that loads that input, or else stores to what is returned
        own: names of the tensors that are that input, as launches are given them
        result: the line that stores to what is returned, if that is not contiguous
        copied_at: file and line that copies that input, if a launch stores to the copy
        is_inside: no launch touches anything of its storage that is not an element of it
    """

    sites: tuple[Site, ...]
    stored: dict[int, Site]
    strides: tuple[int, ...] | None = None
    site: Site | None = None
    own: frozenset[str] = frozenset()
    result: Site | None = None
    copied_at: tuple[str, int] | None = None
    is_inside: bool = True


@dataclass(eq=False)
class ViewWatch(Listener):
    """Whether launches keep to the elements of a view, of all that lies in its storage."""

    hears_in_any_order = True
    view: torch.Tensor
    is_inside: bool = True
    _is_element: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        view, item = self.view, self.view.element_size()
        self._is_element = np.zeros(view.untyped_storage().nbytes() // item, np.bool_)
        if view.numel():
            as_strided(self._is_element[view.storage_offset() :], view.shape, view.stride())[...] = True

    def after_access(self, access: Access) -> None:
        addresses = addresses_of(self.view)
        if access.memory is None or access.memory.address not in addresses or not self.is_inside:
            return
        places = np.broadcast_to((access.address - addresses.start) // self.view.element_size(), access.shape)
        if access.mask is not None:
            places = places[np.broadcast_to(access.mask, access.shape)]
        in_storage = (places >= 0) & (places < len(self._is_element))
        self.is_inside = bool(in_storage.all()) and bool(self._is_element[places].all())


def addresses_of(tensor: torch.Tensor) -> range:
    """The addresses of a tensor's storage."""
    storage = tensor.untyped_storage()
    return range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())


def use_of_inputs(
    observer: CheckObserver, inputs: Sequence[Any], outputs: Any, copies: Sequence[CopyPlace], watch: ViewWatch | None
) -> InputUse:
    """What the launches that an observer saw did with the inputs of a run.

    Args:
        copies: that were made meanwhile
        watch: of the input that has a layout
    """
    sites = tuple(site for launch in observer.launches for site in launch.sites)
    tensors = {index: each for index, each in enumerate(inputs) if isinstance(each, torch.Tensor)}
    written = {index: _first_store(sites, addresses_of(each)) for index, each in tensors.items()}
    stored = {index: site for index, site in written.items() if site is not None}
    if watch is None:
        return InputUse(sites, stored)
    addresses = addresses_of(watch.view)
    return InputUse(
        sites,
        stored,
        tuple(watch.view.stride()),
        observer.site_of(addresses) or observer.store_into(flatten(outputs)),
        frozenset(site.tensor for site in sites if site.address in addresses),
        observer.store_into([each for each in flatten(outputs) if not each.is_contiguous()]),
        _place_of_stored_copy(sites, copies, addresses.start),
        watch.is_inside,
    )


def _first_store(sites: Sequence[Site], addresses: range) -> Site | None:
    return next((site for site in sites if site.kind != "load" and site.address in addresses), None)


def _place_of_stored_copy(sites: Sequence[Site], copies: Sequence[CopyPlace], source: int) -> tuple[str, int] | None:
    """The line that makes the copy of a storage that launches store to."""
    stored = {site.address for site in sites if site.kind != "load"}
    mine = [copy for copy in copies if copy.source == source and copy.copy in stored]
    return (mine[0].file, mine[0].line) if mine else None

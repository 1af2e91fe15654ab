"""The tiles of a launch as a picture: a long vector cut into tiles, and the last one up close."""

from __future__ import annotations

from itertools import pairwise

from tilesight.ledger.tiles import TilePicture
from tilesight.report.catalogue import Catalogue
from tilesight.report.texts import count_text, tensor_type_text
from tilesight.report.view_model import Tail, Tile, TilesPicture
from tilesight.roads.model import Trace

WIDTH = 960.0
GAP_SHARE = 0.8
"""Width of the gap of undrawn programs, in tiles."""


def tiles_picture(words: Catalogue, trace: Trace) -> TilesPicture | None:
    """The picture of a trace; None when its launch has none."""
    picture = trace.tiles
    if picture is None or not picture.program_ids:
        return None
    kinds = {tensor.name: tensor_type_text(tensor.dtype, tensor.shape) for tensor in trace.tensors}
    return TilesPicture(
        title=f"{trace.kernel}: {picture.tensor} {kinds.get(picture.tensor, '')}".rstrip(),
        help=words(
            "tiles_help",
            programs=count_text(trace.programs),
            lanes=count_text(picture.tile_lanes),
            tensor=picture.tensor,
            elements=count_text(picture.elements),
        ),
        width=WIDTH,
        tiles=_tiles(words, picture),
        tail=_tail(words, picture, _store_went_out(trace, picture.tensor)) if picture.tail_lanes_off else None,
        no_tail="" if picture.tail_lanes_off else words("tail_none"),
    )


def _tiles(words: Catalogue, picture: TilePicture) -> tuple[Tile, ...]:
    ids = picture.program_ids
    gaps = [after for before, after in pairwise(ids) if after > before + 1]
    unit = WIDTH / (len(ids) + GAP_SHARE * len(gaps))
    tiles: list[Tile] = []
    x = 0.0
    for place, program in enumerate(ids):
        if program in gaps:
            left_out = program - ids[place - 1] - 1
            tiles.append(Tile(x, unit * GAP_SHARE, words("tile_gap", count=count_text(left_out)), is_gap=True))
            x += unit * GAP_SHARE
        tiles.append(_tile(picture, place, x, unit))
        x += unit
    return tuple(tiles)


def _tile(picture: TilePicture, place: int, x: float, unit: float) -> Tile:
    first, last = picture.first[place], picture.last[place]
    span = max(last - first + 1, 1)
    past = min(max(last - picture.elements + 1, 0), span)
    return Tile(x, unit, f"pid={picture.program_ids[place]}", count_text(first), count_text(last), past / span)


def _tail(words: Catalogue, picture: TilePicture, went_out: bool) -> Tail:
    off = picture.tail_lanes_off
    on = max(picture.tile_lanes - off, 0)
    end = words("tail_end", tensor=picture.tensor, elements=count_text(picture.elements))
    return Tail(
        heading=words("tail_heading", pid=picture.program_ids[-1]),
        on_text=words("tail_on", count=count_text(on)),
        off_text=words("tail_out" if went_out else "tail_masked", count=count_text(off)),
        on_width=WIDTH * on / max(picture.tile_lanes, 1),
        is_masked=not went_out,
        first=count_text(picture.first[-1]),
        end=end,
        last=count_text(picture.last[-1]),
    )


def _store_went_out(trace: Trace, tensor: str) -> bool:
    """The tensor drawn was written outside its bounds: its tail is not masked."""
    return any(row.out_of_bounds_lanes and row.tensor == tensor for row in trace.traffic.rows)

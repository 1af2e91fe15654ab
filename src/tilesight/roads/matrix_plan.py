"""Which runs a matrix has: shapes, dtypes, layouts, and what is left out of them where one run takes long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from tilesight.roads.matrix import Matrix, Outcome
from tilesight.roads.matrix_inputs import Cell, dtypes_of, own_cell, parse_dtypes, parse_shapes, symbols_of, with_sizes
from tilesight.roads.run_costs import MOST_STEPS, RunCosts
from tilesight.roads.shapes import MOST_ELEMENTS, Shapes, Sizes, block_sizes, order_of, plan_sizes

DTYPE_SHAPES = 6
"""Shapes that dtypes other than the case's own are tried on, beside its own shape."""


def run_matrix(matrix: Matrix, shapes: str | None, dtypes: str | None) -> tuple[list[Outcome], list[str]]:
    """Every run of the matrix, smallest first, and what was left out.

    With `shapes` these in every dtype; without, the plan of `roads.shapes`, other dtypes on a choice of
    its shapes. Layouts are tried on the case's own shape, or on the first one given; on a smaller one where a run
    of it is long. A planned size at which a run would be long is made smaller.

    Raises:  InputError: for texts that can't be read, or a case without inputs
    """
    own = own_cell(matrix.case)
    chosen = list(parse_dtypes(dtypes)) if dtypes else dtypes_of(own)
    runner = _Runner(matrix, own)
    matrix.is_asked = bool(shapes)
    if shapes:
        cells = [each.with_dtype(d) for each in parse_shapes(shapes, own) for d in _dtypes_for(each, own, chosen)]
        base = cells[0]
    else:
        base = own.with_dtype(chosen[0])
        cells = _planned(runner, base, chosen)
    runner.run(_smallest_first(cells))
    runner.run(runner.base_of_layouts(base).layouts())
    return sorted(runner.outcomes, key=lambda outcome: _order_of(outcome.cell)), runner.notes


@dataclass
class _Runner:
    """Runs cells, and what it can afford in place of those that would take long.

    Args: own: the case's own run
    """

    matrix: Matrix
    own: Cell
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    notes: list[str] = field(default_factory=list[str])
    _left_out: list[Sizes] = field(default_factory=list[Sizes])

    def __post_init__(self) -> None:
        self.costs = RunCosts(self.own.sizes or {})

    def run(self, cells: Iterable[Cell]) -> None:
        """The outcomes of these cells, each one once."""
        for cell in cells:
            fitting = self._fitting(cell)
            if fitting is not None:
                outcome = self.matrix.run(fitting)
                if all(outcome is not each for each in self.outcomes):
                    self.outcomes.append(outcome)
                if fitting.layout is None and outcome.case.ok is not None and fitting.dtype == self.own.dtype:
                    self.costs.note(fitting.sizes, outcome.steps)

    def _fitting(self, cell: Cell) -> Cell | None:
        """The cell, or a smaller one where it would be long and nobody asked for it; None where none is shorter."""
        if self.matrix.is_asked or cell.sizes is None or cell.is_own or cell.layout is not None:
            return cell
        steps = self.costs.expected(cell.sizes)
        if steps <= MOST_STEPS:
            return cell
        sizes = self.costs.affordable(cell.sizes)
        smaller = None if sizes is None else with_sizes(self.own, sizes).with_dtype(cell.dtype)
        if cell.sizes not in self._left_out:
            self._left_out.append(cell.sizes)
            self.notes.append(_left_out_text(cell, steps, smaller))
        return smaller

    def base_of_layouts(self, base: Cell) -> Cell:
        """The cell that layouts are tried on: this one, or another that has run where it is large or long."""
        ran = [each for each in self.outcomes if each.cell.layout is None and each.cell.dtype == base.dtype]
        is_long = any(_is_long(each, base) for each in ran)
        if not is_long and base.elements <= 4 * MOST_ELEMENTS:
            return base
        if self.matrix.is_asked and is_long:
            self.run([self.own.with_dtype(base.dtype)])
            ran = [each for each in self.outcomes if each.cell.layout is None and each.cell.dtype == base.dtype]
        short = [each.cell for each in ran if each.steps <= MOST_STEPS and each.cell.elements] or [base]
        wanted = min(base.elements, MOST_ELEMENTS)
        chosen = min(short, key=lambda cell: abs(cell.elements - wanted))
        if chosen is not base:
            whose = "a run of the shape that was asked for" if self.matrix.is_asked else "a run of the case's own shape"
            why = f"{whose} is long" if is_long else "the case's own shape is large"
            self.notes.append(f"layouts were tried on {chosen.inputs}: {why}")
        return chosen


def _left_out_text(cell: Cell, steps: float, smaller: Cell | None) -> str:
    instead = f"{smaller.inputs} was in its place; " if smaller is not None else ""
    return (
        f"{cell.inputs} was not run: by what smaller sizes take, about {steps:,.0f} loads and stores would follow one "
        f"another; {instead}--shapes '{cell.inputs}' runs it"
    )


def _dtypes_for(cell: Cell, own: Cell, chosen: Sequence[torch.dtype | None]) -> Sequence[torch.dtype | None]:
    """A shape that was given with a dtype of its own keeps it."""
    return chosen if cell.dtype == own.dtype else [cell.dtype]


def _planned(runner: _Runner, own: Cell, dtypes: Sequence[torch.dtype | None]) -> list[Cell]:
    if own.sizes is None:
        note = "the inputs come from a function, so their shapes are tried as they are; --shapes gives others"
        runner.notes.append(note)
        return [own.with_dtype(dtype) for dtype in dtypes]
    symbols = symbols_of(own.values)
    first = _first_launched(runner.matrix, own, plan_sizes(symbols, ()))
    kept = {size for shape in first.outputs for size in shape}
    summed = {symbol for symbol, size in (first.cell.sizes or {}).items() if first.outputs and size not in kept}
    cells = [with_sizes(own, sizes) for sizes in plan_sizes(symbols, block_sizes(first.constexprs), summed)]
    filled = [cell for cell in cells if cell.elements and not cell.is_own]
    step = max(1, len(filled) // DTYPE_SHAPES)
    fewer = [own, *filled[::step][:DTYPE_SHAPES]]
    if _is_long(first, own) and len(dtypes) > 1:
        runner.notes.append(f"other dtypes were not tried on {own.inputs}: a run of the case's own shape is long")
        fewer = fewer[1:]
    others = [cell.with_dtype(dtype) for dtype in dtypes[1:] for cell in fewer]
    return [*cells, *others]


def _is_long(outcome: Outcome, cell: Cell) -> bool:
    """Whether it is the run of a cell, and takes more steps than one that nobody asked for may."""
    return outcome.cell == cell and outcome.steps > MOST_STEPS


def _first_launched(matrix: Matrix, own: Cell, planned: Sequence[Sizes]) -> Outcome:
    """The run of the case's own inputs, or of the largest that launch something where those do not."""
    first = matrix.run(own)
    others = (matrix.run(with_sizes(own, sizes)) for sizes in reversed(planned) if not first.constexprs)
    return next((outcome for outcome in others if outcome.constexprs), first)


def _order_of(cell: Cell) -> tuple[tuple[int, Shapes], int]:
    return order_of(tuple(spec.shape for spec in cell.specs)), cell.laid_out


def _smallest_first(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=_order_of)

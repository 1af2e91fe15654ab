"""`tilesight check FILE.py:NAME`: the sanitizer and the correctness matrix."""

from __future__ import annotations

import click

from tilesight.cli.deliver import deliver, stdout_kept_for_json
from tilesight.cli.edge import EXIT_FINDINGS, failures_in_one_line
from tilesight.cli.explain import explain_option
from tilesight.cli.options import Outputs, output_options, target_option
from tilesight.cli.progress import working
from tilesight.errors import InputError

SHAPES_HELP = (
    'Shapes in place of the planned ones, separated by ";": inputs as "f32[7,3],f32[3]", the same without '
    'dtypes ("[7,3],[3]"), or the first input\'s sizes alone ("128,256;7,3").'
)


@click.command("check", short_help="The sanitizer and the correctness matrix.")
@click.argument("spec", metavar="FILE.py:NAME|MODULE:NAME")
@click.option("--shapes", metavar="SHAPES", help=SHAPES_HELP)
@click.option("--dtypes", metavar="LIST", help="Dtypes of the floating-point inputs, such as f32,bf16.")
@click.option("--scale-to", metavar="N", help="Check address arithmetic at N elements too, such as 2**33.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random inputs.")
@click.option(
    "--loop-limit",
    type=click.IntRange(min=1),
    help="Rounds after which a loop counts as endless; 100,000 when not given.",
)
@click.option("--memory-cap", metavar="BYTES", help="What a run may take, such as 2**32; 2**30 when not given.")
@explain_option
@target_option
@output_options
def command(
    spec: str,
    shapes: str | None,
    dtypes: str | None,
    scale_to: str | None,
    seed: int,
    loop_limit: int | None,
    memory_cap: str | None,
    target: str,
    outputs: Outputs,
) -> None:
    """Everything that is wrong with NAME, a function without arguments that launches, or a tilesight.Case.

    A case is run over shapes (empty, one, around the block size, odd primes, large), dtypes and layouts
    against its reference in float64, the smallest failing one first. Exits with 1 when a case fails or a
    finding is no mere note.
    """
    with failures_in_one_line(debug=outputs.debug, spec=spec):
        outputs.check()
        elements = parse_optional_count(scale_to, "--scale-to", "elements")
        memory_cap_bytes = parse_optional_count(memory_cap, "--memory-cap", "bytes")
        with stdout_kept_for_json(outputs), working(f"checking {spec}"):
            from tilesight.roads.check import check_spec

            found = check_spec(
                spec,
                shapes=shapes,
                dtypes=dtypes,
                target=target,
                seed=seed,
                loop_limit=loop_limit,
                memory_cap_bytes=memory_cap_bytes,
                scale_to=elements,
            )
        deliver(found, outputs)
        if not found.ok:
            raise click.exceptions.Exit(EXIT_FINDINGS)


def parse_optional_count(text: str | None, option: str, what: str) -> int | None:
    """A count as `8589934592` or `2**33`; None for None.

    Raises:  InputError: for another text, or a count below 1
    """
    if text is None:
        return None
    base, power, exponent = text.replace("_", "").partition("**")
    digits = [part.strip() for part in ((base, exponent) if power else (base,))]
    expected = f"a count of {what}, such as 2**33 or 8589934592"
    if not all(part.isdecimal() and len(part) <= 20 for part in digits) or (power and int(digits[1]) > 62):
        raise InputError(f"{text!r}", where=option, expected=expected)
    count = int(digits[0]) ** int(digits[1]) if power else int(digits[0])
    if not 1 <= count < 2**63:
        raise InputError(f"{text!r}", where=option, expected=f"1 to 2**63 - 1 {what}")
    return count

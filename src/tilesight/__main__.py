"""`python -m tilesight` is the command `tilesight`."""

from tilesight.cli import main

main()

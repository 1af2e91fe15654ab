"""The execution rules, one file a dialect; importing this package registers them all."""

from tilesight.engine.rules import arith, cf, math, scf, tt, ttg, ub

__all__ = ["arith", "cf", "math", "scf", "tt", "ttg", "ub"]

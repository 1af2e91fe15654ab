"""Python imports this at its start where the folder is in PYTHONPATH: processes that tests start have the engine."""

import tilesight

tilesight.enable()

"""View models of the records, and their renderers: terminal, one self-contained HTML file, JSON."""

"""Real models at their published sizes, one file a family, built without memory for their weights."""

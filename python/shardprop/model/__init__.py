"""The nouns: placements, specs, meshes, plan steps, and the question that an op puts."""

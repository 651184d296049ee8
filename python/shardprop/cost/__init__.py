"""What collectives and local work cost: from presets, from files, or as measured."""

"""The calls that an op is tried on: of torch's samples, of a file, or made up."""

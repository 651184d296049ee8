"""The calls that an op is tried on: of a file, written here, of torch's samples, or made up."""

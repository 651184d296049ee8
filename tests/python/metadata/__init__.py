"""Metadata of outputs, ours against torch's, for the ops of torch's own samples."""

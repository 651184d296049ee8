"""Topologies, what they price, and their calibration."""

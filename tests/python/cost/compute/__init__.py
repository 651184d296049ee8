"""What ops cost on one device."""

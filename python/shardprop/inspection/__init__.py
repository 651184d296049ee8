"""What was decided, why, what it moved and where: as text, pictures and pages."""

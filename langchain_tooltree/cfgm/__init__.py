"""CFGM: coarse-to-fine grounded memory, from experience that is collected, recalled and reflected upon."""

"""Is what was approved what runs, is what was erased gone, does rubbish stop nobody? Attacks and faults, counted."""

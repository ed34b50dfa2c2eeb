"""What a page has beside the analysis: a baseline, counters of a GPU, and machine code."""

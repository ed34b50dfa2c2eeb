"""What benchmarks share: cases, times, files of figures, parts of pages."""

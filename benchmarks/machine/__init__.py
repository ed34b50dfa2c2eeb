"""What GPUs do: counters and latencies, and how well cost models tell it."""

"""What is published of a GPU, in sentences about a launch: latencies of the units of an SM, and device memory."""

"""Long windows along rows: register windows of several outputs slide along tiles in shared memory."""

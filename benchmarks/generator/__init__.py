"""The generator itself: its speed, its claims, its options, the whole gallery."""

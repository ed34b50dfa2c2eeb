"""Devices and calls: what a launch list runs on, its inputs, and the comparison with the reference."""

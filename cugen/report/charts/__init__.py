"""Coordinates of the charts of a page, which templates print as SVG."""

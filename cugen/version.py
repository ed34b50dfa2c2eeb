"""The version, in one place: the package, `cugen --version` and every generated file's header take it from here."""

__version__ = "0.1.0"

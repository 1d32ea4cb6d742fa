from tests.tinybook import book, no_kernel

__all__ = ["book", "no_kernel"]

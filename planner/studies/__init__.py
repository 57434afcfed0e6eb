"""Studies that take several rooms; each loads for itself, as it takes many."""

__all__ = ()

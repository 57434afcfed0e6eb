"""Fleets with a colocated pool: prefill and decode in one batch, long prompts perhaps prefilled elsewhere."""

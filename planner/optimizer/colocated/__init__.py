"""Instances that prefill and decode in one batch, beside a plan: what they serve within its promises."""

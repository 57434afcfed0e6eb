"""Many sites, models, classes and periods: one fleet for all of them, by mixed-integer bounds and exact evaluation."""

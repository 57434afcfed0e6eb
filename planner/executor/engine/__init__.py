"""The pass loop of an inference engine that prefills and decodes in one batch: records, compiled functions, one loop.

Nothing here knows models or accelerators: `planner.executor.engine.run` writes the records and reads them, and seconds
of passes come as a table. Functions take the whole `Engine`, change it in place and return plain numbers. An instance
is offered requests (`offer`), and from then on ends one pass (`end_pass`) and begins the next (`begin_pass`).
"""

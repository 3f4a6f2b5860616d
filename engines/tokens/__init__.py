"""Where a speech model's tokens come from: one module for each way of running a language model.

Each has ``create_source(options, models)``, whose options are those of the speech engine.
"""

"""Judges of whether a caller has finished, by the sound of the speech."""

"""``voice transcribe``: files to transcripts, many at once, with an end that can be put off."""

"""Read access to the records that the call brings with it."""

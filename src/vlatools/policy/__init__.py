"""Floor 1: policies: observation + invocation -> action chunk + progress."""

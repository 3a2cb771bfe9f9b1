"""From scores to decisions: held-out entries, probabilities, thresholds and fusion."""

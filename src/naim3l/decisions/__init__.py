"""From scores to answers: held-out entries, probabilities, thresholds, fused views."""

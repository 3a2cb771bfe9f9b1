"""Files: tables, models and checkpoints, written completely or not at all."""

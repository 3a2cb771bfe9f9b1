"""What is on disk: tables, model files, checkpoints; files appear whole or not at all."""

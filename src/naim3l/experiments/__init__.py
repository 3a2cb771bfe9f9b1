"""Experiments: functions from seeds to records of numbers; nothing here prints."""

"""Conversion of tables of any library to views and labels."""

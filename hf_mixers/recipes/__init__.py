"""Trainings from data to report, as functions."""

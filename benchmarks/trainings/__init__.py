"""Trainings whose results are recorded."""

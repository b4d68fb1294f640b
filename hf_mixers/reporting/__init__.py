"""What a run leaves behind: folder, card, plots, environment."""

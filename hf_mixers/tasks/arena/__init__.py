"""One file per task: how it is read from the official files, and how it is made."""

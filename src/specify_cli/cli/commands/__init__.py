"""One module a command: what agents call every day here, the rest in a folder for each subject."""

"""Records beside the files, in capsules of memvid's: derived, filled by one writer, rebuilt when they are lost."""

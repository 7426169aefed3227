"""The shell over both sides: the only code that opens a log, reads standard input or prints."""

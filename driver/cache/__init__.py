"""The compile cache: what was compiled before, in files that nobody else can have written."""

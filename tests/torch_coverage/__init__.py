"""The table of torch's modules and functions, each compiled and held against eager."""

"""Steps of a program with a routine as code: what each kind of them becomes."""

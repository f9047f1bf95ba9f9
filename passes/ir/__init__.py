"""Reading and editing IR: the words that all passes share. No pass lies here."""

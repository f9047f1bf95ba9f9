"""Control flow: branches and loops, and what runs in several ways because only the run knows a rank."""

"""``python -m tilewright`` is the command ``tilewright``."""

from tilewright.tools.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

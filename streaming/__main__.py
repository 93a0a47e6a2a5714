"""`python -m streaming` is `kraftwatch`."""

from streaming.cli import main

if __name__ == "__main__":
    main()

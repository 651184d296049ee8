"""`python -m shardprop` is the command line."""

from .cli import main

if __name__ == "__main__":  # gloo workers import this module again under another name
    main()

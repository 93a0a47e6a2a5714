"""The checks of `kraftwatch doctor` and `kraftwatch config check`: what fails, and how to fix it."""

"""What all settings have in common, and confidential texts. No section of a configuration file is defined here."""

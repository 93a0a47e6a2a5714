"""The lines of a remedy: Kafka's commands, the addresses they are sent to, the steps that bring a voter back."""

"""What people do next: Kafka's commands, the addresses they are sent to, steps, and what a restart must wait for."""
